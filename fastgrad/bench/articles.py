"""The tables of the source articles, as a workload with their claims beside it.

A claim on an operator that the table of workloads does not hold yet names the issue that brings it; from
then on its rows are measured, and nothing needs to change here.
"""

from __future__ import annotations

from dataclasses import dataclass

from fastgrad.bench.workloads import FEATURE_MAP, WORKLOADS, Case, Shape, group_of

# Inputs of the group norms of Stable Diffusion v1.5's U-Net, 32 groups, at 64×64 latents of a picture of
# 512×512, two at once for guidance: (channels, side), where the up blocks concatenate their skips.
_DIFFUSION = (
    *((320, 64), (640, 64), (960, 64)),
    *((320, 32), (640, 32), (960, 32), (1280, 32), (1920, 32)),
    *((640, 16), (1280, 16), (1920, 16), (2560, 16)),
    *((1280, 8), (2560, 8)),
)
# Outputs of ResNet-50's convolutions at pictures of 224×224, where a group norm stands for the batch norm.
_RESNET = (
    *((64, 112), (64, 56), (128, 56), (256, 56)),
    *((128, 28), (256, 28), (512, 28)),
    *((256, 14), (512, 14), (1024, 14)),
    *((512, 7), (2048, 7)),
)


@dataclass(frozen=True)
class Claim:
    """What an article says of an operator against autodiff.

    Parameters
    ----------
    speed : float or None
        Time of autodiff over that of the fused kernels.
    memory : float or None
        Bytes of the fused kernels over those of autodiff.
    issue : int
        Where the operator is to come from if it is not there yet.
    """

    text: str
    operator: str
    dtype: str
    shapes: tuple[Shape, ...]
    speed: float | None
    memory: float | None
    issue: int

    @property
    def measurable(self) -> bool:
        return self.operator in WORKLOADS

    def covers(self, case: Case) -> bool:
        """Whether `case` is a row of this claim."""
        return (
            (case.operator, case.dtype) == (self.operator, self.dtype)
            and case.shape in self.shapes
            and case.mode == WORKLOADS[case.operator].modes[0]
        )


def _squares(batch: int, maps: tuple[tuple[int, int], ...]) -> tuple[Shape, ...]:
    return tuple((batch, channels, side, side) for channels, side in maps)


CLAIMS = (
    Claim(
        "Swish, forward and backward",
        "swish_forward_backward",
        "float16",
        (FEATURE_MAP,),
        speed=1.5,
        memory=0.5,
        issue=2,
    ),
    Claim(
        "GroupNorm backward, Stable Diffusion v1.5's U-Net",
        "group_norm_grad",
        "float32",
        _squares(2, _DIFFUSION),
        speed=1.54,
        memory=None,
        issue=5,
    ),
    Claim(
        "GroupNorm backward, ResNet-50",
        "group_norm_grad",
        "float32",
        _squares(32, _RESNET),
        speed=1 / 0.65,  # 35 % less time
        memory=None,
        issue=5,
    ),
    Claim(
        "GroupNorm and swish, intermediate storage down by 30 to 50 %",
        "group_norm_swish_forward_backward",
        "float32",
        (FEATURE_MAP, (2, 320, 64, 64)),
        speed=None,
        memory=0.7,
        issue=5,
    ),
)


def plan_articles() -> list[list[Case]]:
    """The groups of all claims whose operator is there, each once."""
    wanted = [
        (claim.operator, shape, claim.dtype)
        for claim in CLAIMS
        if claim.measurable
        for shape in claim.shapes
    ]
    return [group_of(*one) for one in dict.fromkeys(wanted)]
