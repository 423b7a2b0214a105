"""The compiled half of the pool: sharing a job out, taking part in one, waiting for the next.

A job is a task (machine code) with its context, cut into `PARTS` parts for each participant.
Participant 0 is the caller. Each computes its own parts first, in order, then what the others have left.
So a worker that wakes late, or never, costs time and nothing else: the caller waits for those that are
inside of the job, not for those that are on their way.

A pool is one block of memory: a head, a counter for each participant, a slot for each worker. What
different threads write is on cache lines of its own.
"""

from __future__ import annotations

import sys

import numpy as np
from numba import types

from .compiler import jit, kernel
from .native import (
    add,
    call_task,
    call_team,
    call_word,
    control_word,
    exchange,
    load,
    pause,
    set_control_word,
    start_thread,
    store,
)

# --- Offsets in bytes. Lines are kept apart by twos: processors fetch them in pairs. ----------------
LINES = 128
#: Head, as set up by Python: the kernel `join_team`, the process, participants at most, nanoseconds to
#: linger; GOMP_parallel and omp_get_thread_num of an OpenMP library, or 0.
JOIN, PROCESS, CAPACITY, LINGER, TEAM, TEAM_INDEX = 0, 8, 16, 24, 32, 40
#: Head, as written by launches: who launches, who is inside, the job, the processor of the last caller.
HELD, MEMBERS, JOB, COUNTERS = LINES, 2 * LINES, 3 * LINES, 4 * LINES
TURNS, TASK, CONTEXT, PARTICIPANTS, MODES = JOB, JOB + 8, JOB + 16, JOB + 24, JOB + 32
PROCESSOR = JOB + 40
#: Slot: the kernel `work`, the thread, the pool, the worker's number, a clock's reading; what launches
#: and the worker write.
MAIN, THREAD, POOL, INDEX, CLOCK = 0, 8, 16, 24, 32
TURN, SLEEPING, MUTEX, CONDITION, SLOT = LINES, 2 * LINES, 3 * LINES, 4 * LINES, 5 * LINES

#: Parts for each participant: a core that is busy with something else leaves some to the others.
PARTS = 4
#: Added to `MEMBERS` while there is no job to join.
CLOSED = -(1 << 32)
#: A turn that ends the worker.
STOP = -1
#: Looks at a word before a thread that waits lets others have its core between looks.
LOOKS = 1 << 12

_MONOTONIC = 1  # as Linux numbers its clocks

_clock = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.intp))
_process = types.ExternalFunction("getpid", types.int32())
_yield = types.ExternalFunction("sched_yield", types.int32())
_is_linux = sys.platform.startswith("linux")
_processor = types.ExternalFunction("sched_getcpu", types.int32())
_join = types.ExternalFunction("pthread_join", types.int32(types.intp, types.intp))
_lock = types.ExternalFunction("pthread_mutex_lock", types.int32(types.intp))
_unlock = types.ExternalFunction("pthread_mutex_unlock", types.int32(types.intp))
_signal = types.ExternalFunction("pthread_cond_signal", types.int32(types.intp))
_wait = types.ExternalFunction("pthread_cond_wait", types.int32(types.intp, types.intp))
_new_mutex = types.ExternalFunction("pthread_mutex_init", types.int32(types.intp, types.intp))
_new_condition = types.ExternalFunction("pthread_cond_init", types.int32(types.intp, types.intp))


@kernel("int64, int64, int64, int64")
def run(pool, task, context, cores):
    """Do a job; the second word of its context is the number of its parts.

    The calling thread does all of it, in one part, where another one launches at this moment, and in a
    process that was forked behind Python's back.
    """
    if load(pool + PROCESS) != _process() or exchange(pool + HELD, 1) != 0:
        call_task(task, context, 0)
        return True
    store(context + 8, cores * PARTS)
    _open(pool, task, context, cores)
    team = load(pool + TEAM)
    if team != 0:
        call_team(team, pool, cores)
    else:
        _wake(pool, cores)
        _take_part(pool, 0)
    _close(pool)
    store(pool + HELD, 0)
    return True


@jit
def _open(pool, task, context, cores):
    for participant in range(cores):
        store(pool + COUNTERS + participant * LINES, 0)
    store(pool + TASK, task)
    store(pool + CONTEXT, context)
    store(pool + PARTICIPANTS, cores)
    store(pool + MODES, control_word())
    add(pool + MEMBERS, -CLOSED)


@jit
def _close(pool):
    """Let nobody in any more, and wait for those that are inside."""
    add(pool + MEMBERS, CLOSED)
    looks = 0
    while load(pool + MEMBERS) != CLOSED:
        looks += 1
        if looks < LOOKS:
            pause()
        else:
            _yield()


@jit
def _take_part(pool, me):
    """Compute parts until none is left: own ones, then those of the participants after this one."""
    participants = load(pool + PARTICIPANTS)
    task, context = load(pool + TASK), load(pool + CONTEXT)
    for step in range(participants):
        owner = (me + step) % participants
        counter = pool + COUNTERS + owner * LINES
        while load(counter) < PARTS:
            part = add(counter, 1)
            if part < PARTS:
                call_task(task, context, owner * PARTS + part)


@jit
def _join_job(pool, me):
    """Take part in the job if it is still open, in the caller's rounding and flush-to-zero modes."""
    if add(pool + MEMBERS, 1) >= 0 and me < load(pool + PARTICIPANTS):
        modes = control_word()
        set_control_word(load(pool + MODES))
        _take_part(pool, me)
        set_control_word(modes)
    add(pool + MEMBERS, -1)


@kernel("int64")
def join_team(pool):
    """What each thread of an OpenMP team does; 0 is the caller."""
    _join_job(pool, call_word(load(pool + TEAM_INDEX)))
    return True


# --- Workers --------------------------------------------------------------------------------------


@jit
def _slot(pool, worker):
    return pool + COUNTERS + load(pool + CAPACITY) * LINES + (worker - 1) * SLOT


@kernel("int64, int64, int64")
def start(pool, worker, work_address):
    """Start worker `worker`, from 1 up; False where the system gives no thread."""
    slot = _slot(pool, worker)
    _new_mutex(slot + MUTEX, 0)
    _new_condition(slot + CONDITION, 0)
    store(slot + MAIN, work_address)
    store(slot + POOL, pool)
    store(slot + INDEX, worker)
    return start_thread(slot) == 0


@kernel("int64")
def work(slot):
    """A worker's life."""
    pool, me = load(slot + POOL), load(slot + INDEX)
    seen = 0
    while True:
        turn = _next_turn(slot, seen, load(pool + LINGER))
        if turn == STOP:
            return True
        seen = turn
        _join_job(pool, me)


@jit
def _next_turn(slot, seen, linger):
    """The first turn that is not `seen`: awaited awake, then letting others have the core, then asleep.

    Waking a thread takes up to 0.1 ms. Operators mostly follow each other sooner than `linger`. But a
    worker on the processor of the caller sleeps at once: the system leaves a thread that lingers where it
    is, so that both would share one processor for good, and puts one that it wakes on an idle one.
    """
    turn = _look(slot, seen, LOOKS)
    if turn != seen:
        return turn
    end = _nanoseconds(slot) + linger
    while _nanoseconds(slot) < end and not _is_beside_caller(slot):
        _yield()
        turn = _look(slot, seen, 16)
        if turn != seen:
            return turn
    _lock(slot + MUTEX)
    store(slot + SLEEPING, 1)
    turn = load(slot + TURN)
    while turn == seen:
        _wait(slot + CONDITION, slot + MUTEX)
        turn = load(slot + TURN)
    store(slot + SLEEPING, 0)
    _unlock(slot + MUTEX)
    return turn


if _is_linux:

    @jit
    def _is_beside_caller(slot):
        return np.int64(_processor()) == load(load(slot + POOL) + PROCESSOR)

    @jit
    def _tell_processor(pool):
        store(pool + PROCESSOR, np.int64(_processor()))

else:

    @jit
    def _is_beside_caller(slot):
        return False

    @jit
    def _tell_processor(pool):
        pass


@jit
def _look(slot, seen, looks):
    for _ in range(looks):
        turn = load(slot + TURN)
        if turn != seen:
            return turn
        pause()
    return seen


@jit
def _nanoseconds(slot):
    _clock(_MONOTONIC, slot + CLOCK)
    return load(slot + CLOCK) * 1_000_000_000 + load(slot + CLOCK + 8)


@jit
def _wake(pool, cores):
    """Give the first workers a turn."""
    _tell_processor(pool)
    turn = add(pool + TURNS, 1) + 1
    for worker in range(1, cores):
        _give(_slot(pool, worker), turn)


@jit
def _give(slot, turn):
    store(slot + TURN, turn)
    # A worker says that it sleeps before it looks for the last time: one of the two sees the other.
    if load(slot + SLEEPING) != 0:
        _lock(slot + MUTEX)
        _signal(slot + CONDITION)
        _unlock(slot + MUTEX)


@kernel("int64, int64")
def stop(pool, workers):
    """End all workers and wait for them; the pool stays held, so that launches are serial from now on."""
    while exchange(pool + HELD, 1) != 0:
        _yield()
    for worker in range(1, workers + 1):
        _give(_slot(pool, worker), STOP)
        _join(load(_slot(pool, worker) + THREAD), 0)
    return True
