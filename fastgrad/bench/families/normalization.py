"""Group, layer, RMS, instance and batch norm, and the pairs that models use them in.

Results are new arrays for everyone (mode "allocate"): PyTorch's norms have no `out=`.
"""

from __future__ import annotations

from fastgrad.bench.forms import Channels, Rows, Shape
from fastgrad.bench.norms import Norm, NormCall, both, forward, gradient
from fastgrad.bench.workload import BEYOND_CACHE, FEATURE_MAP, Selection, Workload

_GROUPS = 32

#: The shape that the numbers to reach are about, and those of Stable Diffusion v1.5's U-Net.
GROUPS_BEYOND_CACHE: Shape = (32, 256, 64, 64)
DIFFUSION: tuple[Shape, ...] = ((2, 320, 64, 64), (2, 640, 32, 32), (2, 1280, 16, 16))
ROWS_IN_CACHE: Shape = (64, 4096)

#: One group an item: an item and its gradient are together beyond the cache.
LARGE_GROUPS: Shape = (4, 32, 512, 512)

_CHANNEL_SIZES = (*DIFFUSION, FEATURE_MAP, GROUPS_BEYOND_CACHE)
_ROW_SIZES = (ROWS_IN_CACHE, BEYOND_CACHE)

# Where no number names a shape: beyond the cache in half the time or less, in 16 bit and in float32.
_HALF_THE_ITEMS: Shape = (16, 256, 64, 64)
_HALF_THE_ROWS: Shape = (4096, 4096)
_FEW_ITEMS: Shape = (8, 256, 64, 64)
_FEW_ROWS: Shape = (2048, 4096)

_GROUP_NORM = Norm("group_norm", Channels(_GROUPS), {"num_groups": _GROUPS})
_GROUP_NORM_NHWC = Norm(
    "group_norm",
    Channels(_GROUPS, last=True),
    {"num_groups": _GROUPS, "data_format": "NHWC"},
)
_ONE_GROUP = Norm("group_norm", Channels(1, least_row=1 << 23), {"num_groups": 1})
_GROUP_NORM_SWISH = Norm(
    "group_norm_swish", Channels(_GROUPS), {"num_groups": _GROUPS}, has_swish=True
)
_INSTANCE_NORM = Norm("instance_norm", Channels())
_BATCH_NORM = Norm("batch_norm", Channels(over_batch=True))
_LAYER_NORM = Norm("layer_norm", Rows())
_RMS_NORM = Norm("rms_norm", Rows(), is_rms=True)
_ADD_LAYER_NORM = Norm("add_layer_norm", Rows(), has_residual=True)
_ADD_RMS_NORM = Norm("add_rms_norm", Rows(), is_rms=True, has_residual=True)

#: How each workload is run.
NORM_CALLS: dict[str, NormCall] = {
    "group_norm": forward(_GROUP_NORM),
    "group_norm_grad": gradient(_GROUP_NORM),
    "group_norm_large_grad": gradient(_ONE_GROUP),
    "group_norm_nhwc": forward(_GROUP_NORM_NHWC),
    "group_norm_nhwc_grad": gradient(_GROUP_NORM_NHWC),
    "group_norm_swish": forward(_GROUP_NORM_SWISH),
    "group_norm_swish_grad": gradient(_GROUP_NORM_SWISH),
    "group_norm_swish_forward_backward": both(_GROUP_NORM_SWISH),
    "instance_norm": forward(_INSTANCE_NORM),
    "instance_norm_grad": gradient(_INSTANCE_NORM),
    "batch_norm": forward(_BATCH_NORM),
    "batch_norm_grad": gradient(_BATCH_NORM),
    "layer_norm": forward(_LAYER_NORM),
    "layer_norm_grad": gradient(_LAYER_NORM),
    "rms_norm": forward(_RMS_NORM),
    "rms_norm_grad": gradient(_RMS_NORM),
    "rms_norm_forward_backward": both(_RMS_NORM),
    "add_layer_norm": forward(_ADD_LAYER_NORM),
    "add_layer_norm_grad": gradient(_ADD_LAYER_NORM),
    "add_rms_norm": forward(_ADD_RMS_NORM),
    "add_rms_norm_grad": gradient(_ADD_RMS_NORM),
}


def _in_two(shape: Shape, *more: Shape) -> Selection:
    """`shape` in float32 and bfloat16, and `more` in float32."""
    return {"float32": (*more, shape), "bfloat16": (shape,)}


# Float32 everywhere, 16 bit for each kind of kernel: a run without filters has ten minutes for all of this.
# With DTYPE= every operator is measured at its `sizes`.
_SELECTIONS: dict[str, Selection] = {
    "group_norm": {
        "float32": (*DIFFUSION, FEATURE_MAP, GROUPS_BEYOND_CACHE),
        "bfloat16": (GROUPS_BEYOND_CACHE,),
    },
    "group_norm_grad": {
        "float32": (*DIFFUSION, FEATURE_MAP, GROUPS_BEYOND_CACHE),
        "bfloat16": (GROUPS_BEYOND_CACHE,),
        "float16": (GROUPS_BEYOND_CACHE,),
    },
    "group_norm_large_grad": {"float32": (LARGE_GROUPS,)},
    "group_norm_nhwc": _in_two(GROUPS_BEYOND_CACHE),
    "group_norm_nhwc_grad": _in_two(GROUPS_BEYOND_CACHE),
    "group_norm_swish": {"float32": (_FEW_ITEMS,), "bfloat16": (_HALF_THE_ITEMS,)},
    "group_norm_swish_grad": {"float32": (_FEW_ITEMS,), "bfloat16": (_HALF_THE_ITEMS,)},
    "group_norm_swish_forward_backward": {"float32": (FEATURE_MAP, GROUPS_BEYOND_CACHE)},
    "instance_norm": {"float32": (_FEW_ITEMS,)},
    "instance_norm_grad": {"float32": (_FEW_ITEMS,)},
    "batch_norm": {"float32": (_FEW_ITEMS,)},
    "batch_norm_grad": {"float32": (_FEW_ITEMS,)},
    "layer_norm": _in_two(BEYOND_CACHE, ROWS_IN_CACHE),
    "layer_norm_grad": {**_in_two(BEYOND_CACHE, ROWS_IN_CACHE), "float16": (BEYOND_CACHE,)},
    "rms_norm": _in_two(_HALF_THE_ROWS),
    "rms_norm_grad": _in_two(_HALF_THE_ROWS),
    "rms_norm_forward_backward": _in_two(BEYOND_CACHE, ROWS_IN_CACHE),
    "add_layer_norm": {"float32": (_FEW_ROWS,)},
    "add_layer_norm_grad": {"float32": (_FEW_ROWS,)},
    "add_rms_norm": {"float32": (_FEW_ROWS,)},
    "add_rms_norm_grad": {"float32": (_FEW_ROWS,)},
}

#: Where a run without filters takes the time for all peers: what the articles claim, and a row norm.
_BESIDE_ALL: dict[str, Selection] = {
    "group_norm_grad": {"float32": (FEATURE_MAP,)},
    "group_norm_swish_forward_backward": {"float32": (FEATURE_MAP,)},
    "layer_norm_grad": {"float32": (ROWS_IN_CACHE,)},
    "rms_norm_forward_backward": {"float32": (ROWS_IN_CACHE,)},
}


def _sizes(call: NormCall) -> tuple[Shape, ...]:
    form = call.norm.form
    if isinstance(form, Rows):
        return _ROW_SIZES
    return tuple(one for one in _CHANNEL_SIZES if not form.misfit(one)) or (LARGE_GROUPS,)


def _workload(name: str, call: NormCall) -> Workload:
    # Groups that have left the cache between the two passes of a gradient are read once more by the second.
    again = 2 if name == "group_norm_large_grad" else 0
    return Workload(
        call.inputs,
        call.arrays_moved + again,
        tuple(call.references()),
        modes=("allocate",),
        selection=_SELECTIONS[name],
        beside_all=_BESIDE_ALL.get(name, {}),
        sizes=_sizes(call),
        form=call.norm.form,
        family="normalization",
    )


NORMALIZATION: dict[str, Workload] = {
    name: _workload(name, call) for name, call in NORM_CALLS.items()
}
