"""What the pool of threads asks of the machine: atomic words, a pause, addresses of functions.

Intrinsics for code that is compiled by Numba. Words are int64 at an address; every access is
sequentially consistent, so a store and a load after it are seen in this order by every thread.
"""

from __future__ import annotations

import platform

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = [
    "add",
    "call_kernel",
    "call_task",
    "call_team",
    "call_word",
    "control_word",
    "exchange",
    "load",
    "pause",
    "set_control_word",
    "share",
    "start_thread",
    "store",
]

_IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
_ORDER = "seq_cst"
_WORD = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()
#: What one core does of a launch: ``task(context, part)``.
_TASK = ir.FunctionType(ir.VoidType(), [_BYTES, _WORD])
#: What POSIX calls in a new thread.
_MAIN = ir.FunctionType(_BYTES, [_BYTES])


def _at(builder, address):
    return builder.inttoptr(address, _WORD.as_pointer())


@intrinsic
def load(typing_context, address):
    """The word at `address`."""

    def generate(context, builder, signature, arguments):
        return builder.load_atomic(_at(builder, arguments[0]), _ORDER, 8)

    return types.int64(types.int64), generate


@intrinsic
def store(typing_context, address, value):
    """Write the word at `address`."""

    def generate(context, builder, signature, arguments):
        builder.store_atomic(arguments[1], _at(builder, arguments[0]), _ORDER, 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def add(typing_context, address, value):
    """Add to the word at `address`; returns what it was."""

    def generate(context, builder, signature, arguments):
        return builder.atomic_rmw("add", _at(builder, arguments[0]), arguments[1], _ORDER)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def exchange(typing_context, address, value):
    """Write the word at `address`; returns what it was."""

    def generate(context, builder, signature, arguments):
        return builder.atomic_rmw("xchg", _at(builder, arguments[0]), arguments[1], _ORDER)

    return types.int64(types.int64, types.int64), generate


def _instruction(builder, name, result, *arguments):
    function_type = ir.FunctionType(result, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, function_type, name)
    return builder.call(function, arguments)


@intrinsic
def pause(typing_context):
    """Tell the core that this is a loop that waits; nothing elsewhere than on x86."""

    def generate(context, builder, signature, arguments):
        if _IS_X86:
            _instruction(builder, "llvm.x86.sse2.pause", ir.VoidType())
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def control_word(typing_context):
    """The calling thread's rounding and flush-to-zero modes (x86: MXCSR), 0 elsewhere."""

    def generate(context, builder, signature, arguments):
        if not _IS_X86:
            return _WORD(0)
        slot = cgutils.alloca_once(builder, ir.IntType(32))
        _instruction(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), builder.bitcast(slot, _BYTES))
        return builder.zext(builder.load(slot), _WORD)

    return types.int64(), generate


@intrinsic
def set_control_word(typing_context, word):
    """Take over the modes that `control_word` returned in another thread."""

    def generate(context, builder, signature, arguments):
        if _IS_X86:
            slot = cgutils.alloca_once_value(builder, builder.trunc(arguments[0], ir.IntType(32)))
            pointer = builder.bitcast(slot, _BYTES)
            _instruction(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), pointer)
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def call_task(typing_context, task, context_address, part):
    """Call the task at an address, as `share` made it."""

    def generate(context, builder, signature, arguments):
        function = builder.inttoptr(arguments[0], _TASK.as_pointer())
        builder.call(function, [builder.inttoptr(arguments[1], _BYTES), arguments[2]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def call_word(typing_context, address):
    """Call the C function ``int f(void)`` at an address."""

    def generate(context, builder, signature, arguments):
        function_type = ir.FunctionType(ir.IntType(32), [])
        function = builder.inttoptr(arguments[0], function_type.as_pointer())
        return builder.sext(builder.call(function, []), _WORD)

    return types.int64(types.int64), generate


def _main(context, module):
    """A C function ``void *main(void *data)`` that calls the kernel named by the first word of `data`.

    The kernel is called with the address of `data`.
    """
    main = ir.Function(module, _MAIN, module.get_unique_name("thread_main"))
    main.linkage = "internal"
    builder = ir.IRBuilder(main.append_basic_block())
    address = builder.ptrtoint(main.args[0], _WORD)
    call_kernel(context, builder, builder.load(_at(builder, address)), (types.int64,), (address,))
    builder.ret(cgutils.get_null_value(_BYTES))
    return main


@intrinsic
def start_thread(typing_context, data):
    """Start a thread that calls the kernel named by the first word of `data`; 0 if there is one.

    The second word becomes the thread's identifier.
    """

    def generate(context, builder, signature, arguments):
        main = _main(context, builder.module)
        create_type = ir.FunctionType(ir.IntType(32), [_BYTES, _BYTES, main.type, _BYTES])
        create = cgutils.get_or_insert_function(builder.module, create_type, "pthread_create")
        identifier = builder.inttoptr(builder.add(arguments[0], _WORD(8)), _BYTES)
        data = builder.inttoptr(arguments[0], _BYTES)
        nothing = cgutils.get_null_value(_BYTES)
        return builder.sext(builder.call(create, [identifier, nothing, main, data]), _WORD)

    return types.int64(types.int64), generate


@intrinsic
def call_team(typing_context, parallel, data, threads):
    """Let an OpenMP team call the kernel named by the first word of `data`; returns when all have.

    `parallel` is the address of libgomp's ``GOMP_parallel(function, data, num_threads, flags)``.
    """

    def generate(context, builder, signature, arguments):
        main = _main(context, builder.module)
        unsigned = ir.IntType(32)
        parallel_type = ir.FunctionType(ir.VoidType(), [main.type, _BYTES, unsigned, unsigned])
        parallel = builder.inttoptr(arguments[0], parallel_type.as_pointer())
        data = builder.inttoptr(arguments[1], _BYTES)
        threads = builder.trunc(arguments[2], unsigned)
        builder.call(parallel, [main, data, threads, unsigned(0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


#: Words of a job before the walk's own arguments: parts that failed, parts, the walk, its ranges.
_FAILED, _PARTS, _TILES, _COUNT, _ARGUMENTS = range(5)


@intrinsic
def share(typing_context, run, pool, cores, tiles, count, arguments):
    """Walk `count` ranges with the walk at the address `tiles`, on up to `cores` cores of `pool`.

    `run` is the address of `pool_kernels.run`, `arguments` a tuple of what the walk takes after its
    range. Returns how many parts raised an exception. Unlike a call by name, this compiles nothing of
    the walk into the caller.
    """

    def generate(context, builder, signature, values):
        run, pool, cores, tiles, count, packed = values
        job_type = ir.LiteralStructType([_WORD] * _ARGUMENTS + [packed.type])
        job = cgutils.alloca_once(builder, job_type)
        for index, value in enumerate((_WORD(0), _WORD(1), tiles, count, packed)):
            builder.store(value, cgutils.gep_inbounds(builder, job, 0, index))
        task = builder.ptrtoint(_task(context, builder.module, job_type, tuple(arguments)), _WORD)
        address = builder.ptrtoint(job, _WORD)
        call_kernel(context, builder, run, (types.int64,) * 4, (pool, task, address, cores))
        return builder.load_atomic(cgutils.gep_inbounds(builder, job, 0, _FAILED), _ORDER, 8)

    return types.int64(*(types.int64,) * 5, arguments), generate


def _task(context, module, job_type, own_types):
    """A C function ``void task(void *job, int64 part)``: the walk over its share of the ranges."""
    task = ir.Function(module, _TASK, module.get_unique_name("task"))
    task.linkage = "internal"
    builder = ir.IRBuilder(task.append_basic_block())
    job = builder.bitcast(task.args[0], job_type.as_pointer())
    part = task.args[1]

    def field(index):
        return cgutils.gep_inbounds(builder, job, 0, index)

    parts, count = builder.load(field(_PARTS)), builder.load(field(_COUNT))
    lo = builder.udiv(builder.mul(count, part), parts)
    hi = builder.udiv(builder.mul(count, builder.add(part, _WORD(1))), parts)
    with builder.if_then(builder.icmp_unsigned("<", lo, hi)):
        own = (lo, hi, *cgutils.unpack_tuple(builder, builder.load(field(_ARGUMENTS))))
        types_ = (types.int64, types.int64, *own_types)
        failed = call_kernel(context, builder, builder.load(field(_TILES)), types_, own)
        builder.atomic_rmw("add", field(_FAILED), builder.zext(failed, _WORD), _ORDER)
    builder.ret_void()
    return task


def call_kernel(context, builder, address, own_types, own_values):
    """Call a kernel by address; returns whether it raised an exception."""
    convention = context.call_conv
    function_type = convention.get_function_type(types.boolean, own_types)
    function = builder.inttoptr(address, function_type.as_pointer())
    status, _ = convention.call_function(builder, function, types.boolean, own_types, own_values)
    return status.is_error
