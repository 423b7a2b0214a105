"""Loads and stores that NumPy indexing in Numba cannot express: by address, swapped, past the cache."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .constants import LINE

__all__ = [
    "borrowed",
    "load_at",
    "read",
    "read_sum",
    "store_at",
    "store_line",
    "swap_bytes",
    "tile_at",
    "window",
    "write",
    "write_sum",
]


def _address(context, builder, element, address):
    return builder.inttoptr(address, context.get_data_type(element).as_pointer())


def _scopes(module, *names):
    """Alias scopes of what a fused loop stores: its ``results``, and ``sums`` that it adds to."""
    domain = module.add_metadata([ir.MetaDataString(module, "fastgrad tiles")])
    return module.add_metadata(
        [module.add_metadata([ir.MetaDataString(module, name), domain]) for name in names]
    )


def _element(context, builder, array, value, index):
    view = cgutils.create_struct_proxy(array)(context, builder, value)
    return builder.gep(view.data, [index])


@intrinsic
def read(typing_context, array, index):
    """`array[index]` in a fused loop: never an element that another lane has written.

    A result is either apart from the operands or exactly one of them, and then a lane reads its element
    before it writes it. LLVM cannot know this: without it, it guards the loop with an overlap check, and
    in place the check fails and the loop runs scalar, 8 times slower.
    """

    def generate(context, builder, signature, arguments):
        load = builder.load(_element(context, builder, array, *arguments))
        load.set_metadata("noalias", _scopes(builder.module, "results", "sums"))
        return load

    return array.dtype(array, types.int64), generate


@intrinsic
def write(typing_context, array, index, value):
    """`array[index] = value` in a fused loop: see `read`."""

    def generate(context, builder, signature, arguments):
        target = _element(context, builder, array, *arguments[:2])
        store = builder.store(arguments[2], target)
        store.set_metadata("alias.scope", _scopes(builder.module, "results"))
        store.set_metadata("noalias", _scopes(builder.module, "sums"))
        return context.get_dummy_value()

    return types.void(array, types.int64, array.dtype), generate


@intrinsic
def read_sum(typing_context, array, index):
    """`array[index]` of sums that a fused loop adds to: apart from all operands and results."""

    def generate(context, builder, signature, arguments):
        load = builder.load(_element(context, builder, array, *arguments))
        load.set_metadata("alias.scope", _scopes(builder.module, "sums"))
        load.set_metadata("noalias", _scopes(builder.module, "results"))
        return load

    return array.dtype(array, types.int64), generate


@intrinsic
def write_sum(typing_context, array, index, value):
    """`array[index] = value` of such sums."""

    def generate(context, builder, signature, arguments):
        store = builder.store(arguments[2], _element(context, builder, array, *arguments[:2]))
        store.set_metadata("alias.scope", _scopes(builder.module, "sums"))
        store.set_metadata("noalias", _scopes(builder.module, "results"))
        return context.get_dummy_value()

    return types.void(array, types.int64, array.dtype), generate


def _tile(context, builder, result, source, pointer, size):
    """An array of `size` elements at `pointer`, which owns nothing."""
    view = cgutils.create_struct_proxy(result)(context, builder)
    view.data, view.nitems, view.itemsize = pointer, size, source.itemsize
    view.shape = cgutils.pack_array(builder, [size])
    view.strides = cgutils.pack_array(builder, [source.itemsize])
    view.meminfo = cgutils.get_null_value(view.meminfo.type)
    view.parent = cgutils.get_null_value(view.parent.type)
    return view._getvalue()


@intrinsic
def window(typing_context, array, start, size):
    """`array[start : start + size]` without a share in its ownership.

    A slice counts references, atomically and for all cores on the same cache line: 0.1 µs a tile. The
    caller keeps `array` alive.
    """
    result = types.Array(array.dtype, 1, "C")

    def generate(context, builder, signature, arguments):
        source = cgutils.create_struct_proxy(array)(context, builder, arguments[0])
        pointer = builder.gep(source.data, [arguments[1]])
        return _tile(context, builder, result, source, pointer, arguments[2])

    return result(array, types.int64, types.int64), generate


@intrinsic
def tile_at(typing_context, like, address, size):
    """`size` elements of the dtype of the array `like` at `address`, whatever array that is in."""
    result = types.Array(like.dtype, 1, "C")

    def generate(context, builder, signature, arguments):
        source = cgutils.create_struct_proxy(like)(context, builder, arguments[0])
        pointer = builder.inttoptr(arguments[1], source.data.type)
        return _tile(context, builder, result, source, pointer, arguments[2])

    return result(like, types.int64, types.int64), generate


@intrinsic
def borrowed(typing_context, array):
    """`array` without a share in its ownership, for a kernel whose caller keeps it alive.

    Whatever is then made of it counts no references. Counting is an atomic instruction, and that waits
    until all non-temporal stores before it have left: with it a streaming kernel takes 1.3 times as long.
    """

    def generate(context, builder, signature, arguments):
        view = cgutils.create_struct_proxy(array)(context, builder, arguments[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), generate


@intrinsic
def load_at(typing_context, like, address):
    """The element of the dtype of the array `like` at `address` (bytes), which need not be aligned."""
    element = like.dtype

    def generate(context, builder, signature, arguments):
        value = builder.load(_address(context, builder, element, arguments[1]))
        value.align = 1
        return value

    return element(like, types.int64), generate


@intrinsic
def store_at(typing_context, value, address):
    """Store `value` at `address` (bytes), which need not be aligned."""

    def generate(context, builder, signature, arguments):
        instruction = builder.store(arguments[0], _address(context, builder, value, arguments[1]))
        instruction.align = 1
        return context.get_dummy_value()

    return types.void(value, types.int64), generate


@intrinsic
def swap_bytes(typing_context, value):
    """`value` with its bytes in the opposite order."""

    def generate(context, builder, signature, arguments):
        own_type = context.get_data_type(value)
        integer = ir.IntType(context.get_abi_sizeof(own_type) * 8)
        swap = builder.module.declare_intrinsic("llvm.bswap", [integer])
        swapped = builder.call(swap, [builder.bitcast(arguments[0], integer)])
        return builder.bitcast(swapped, own_type)

    return value(value), generate


@intrinsic
def store_line(typing_context, destination, offset, source):
    """Store one cache line of the contiguous `source` to `destination`, both from `offset` on,
    without reading or keeping the line in the cache.

    `destination[offset]` has to lie at the start of a cache line.
    """
    element = destination.dtype

    def generate(context, builder, signature, arguments):
        element_type = context.get_data_type(element)
        lanes = LINE // context.get_abi_sizeof(element_type)
        line = ir.VectorType(element_type, lanes).as_pointer()

        def pointer(index):
            array = cgutils.create_struct_proxy(signature.args[index])(
                context, builder, arguments[index]
            )
            return builder.bitcast(builder.gep(array.data, [arguments[1]]), line)

        value = builder.load(pointer(2))
        value.align = 1
        store = builder.store(value, pointer(0))
        store.align = LINE
        store.set_metadata(
            "nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        )
        return context.get_dummy_value()

    return types.void(destination, types.int64, source), generate
