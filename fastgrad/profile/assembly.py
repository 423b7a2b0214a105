"""The hot loop of a kernel: found in the assembly that LLVM makes of it, read and counted.

The hot loop is the innermost loop with the most bits of arithmetic: the vectorised one, not its
remainder and not the loops that gather or copy tiles.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

from fastgrad.profile import arm, x86
from fastgrad.profile.instructions import Instruction
from fastgrad.program.compile import compiled
from fastgrad.program.program import Program
from fastgrad.vector_unit.precision import Precision

__all__ = ["HotLoop", "assembly_of", "hot_loop", "target", "throughput"]


@dataclass(frozen=True)
class HotLoop:
    """The loop in which a kernel spends its time.

    Attributes
    ----------
    label : str
        Where it starts.
    instructions : tuple of Instruction
        In order, the jump back last.
    bytes_stored : int
        How far one turn moves the address of the results; 0 where the addresses do not tell.
    """

    label: str
    instructions: tuple[Instruction, ...]
    bytes_stored: int

    @property
    def packed(self) -> list[Instruction]:
        """The instructions that compute all lanes of a vector."""
        return [own for own in self.instructions if own.computes and own.is_packed]

    @property
    def scalar(self) -> list[Instruction]:
        """The instructions that compute a single element."""
        return [own for own in self.instructions if own.computes and not own.is_packed]

    @property
    def bits(self) -> int:
        """Of the vectors that most of the arithmetic is done in; 0 where most of it is scalar."""
        if len(self.packed) <= len(self.scalar):
            return 0
        return Counter(own.bits for own in self.packed).most_common(1)[0][0]

    def elements(self, itemsize: int) -> int:
        """Elements of `itemsize` bytes that a turn computes; 0 where the addresses do not tell."""
        return self.bytes_stored // itemsize

    def counts(self) -> list[tuple[str, int]]:
        """How many instructions there are of each class, the most frequent first."""
        return Counter(own.kind for own in self.instructions).most_common()


def assembly_of(program: Program, precision: Precision) -> tuple[str, str]:
    """The assembly of a program's walk, and LLVM's name of the machine that it is for.

    It is compiled for this purpose: machine code from the cache comes without its text. LLVM writes
    the text a second time from the same module, so a few registers may be others than in the code
    that runs.
    """
    from llvmlite import binding

    from fastgrad.runtime.compiler import able_to_compile

    kernel = compiled(program, precision).tiles
    with able_to_compile():
        kernel.dispatcher.compile(kernel.signature)
    return kernel.dispatcher.inspect_asm(kernel.signature), binding.get_process_triple()


def target() -> str:
    """The processor that kernels are compiled for, as LLVM calls it."""
    from llvmlite import binding

    return f"{binding.get_host_cpu_name()} ({binding.get_process_triple()})"


def hot_loop(assembly: str, triple: str) -> HotLoop | None:
    """The hot loop of a module; None if it has no loop that computes anything.

    Parameters
    ----------
    assembly : str
        As LLVM writes it.
    triple : str
        LLVM's name of the machine: ``x86_64-…`` or ``aarch64-…``.
    """
    machine = arm if triple.startswith(("aarch64", "arm64")) else x86
    loops = [_read(body, machine) for body in _innermost(_listing(assembly), machine)]
    return max((own for own in loops if _weight(own)), key=_weight, default=None)


def _weight(loop: HotLoop) -> int:
    """Bits that a turn computes; a single lane counts as one of float32."""
    return sum(own.bits if own.is_packed else 32 for own in loop.instructions if own.computes)


# --- Loops ----------------------------------------------------------------------------------------


class _Listing(NamedTuple):
    """The lines of a module that are instructions, and the index that each label stands before."""

    lines: list[str]
    labels: dict[str, int]


class _Body(NamedTuple):
    label: str
    lines: Sequence[str]


def _listing(assembly: str) -> _Listing:
    lines: list[str] = []
    labels: dict[str, int] = {}
    for line in assembly.splitlines():
        text = re.sub(r"\s*(#\s.*|//\s.*|;.*)?$", "", line)  # without a comment at its end
        if label := re.fullmatch(r'("[^"]+"|[\w.$@]+):', text):
            labels[label[1]] = len(lines)
        elif text[:1].isspace() and not text.lstrip().startswith("."):
            lines.append(text.strip().replace("\t", " "))
    return _Listing(lines, labels)


def _innermost(listing: _Listing, machine: ModuleType) -> list[_Body]:
    """The bodies of loops, from a label to the jump back to it, that hold no other loop."""
    found: list[tuple[int, int, str]] = []
    for end, text in enumerate(listing.lines):
        label = machine.jump_target(text)
        start = listing.labels.get(label, end + 1) if label else end + 1
        if start <= end:
            found.append((start, end, label))
    return [
        _Body(label, listing.lines[start : end + 1])
        for start, end, label in found
        if not any(start <= s and e <= end and (s, e) != (start, end) for s, e, _ in found)
    ]


def _read(body: _Body, machine: ModuleType) -> HotLoop:
    steps = dict(filter(None, map(machine.step, body.lines)))
    advancing = frozenset(steps)
    instructions = tuple(machine.instruction(text, advancing) for text in body.lines)
    return HotLoop(body.label, instructions, _bytes_stored(instructions, steps, machine))


def _bytes_stored(
    instructions: Sequence[Instruction], steps: dict[str, int], machine: ModuleType
) -> int:
    for own in instructions:
        if own.is_store and own.memory == "element":
            for register, step in steps.items():
                if re.search(rf"{register}\b", own.text):
                    return abs(step) * machine.scale(own.text, register)
    return 0


# --- llvm-mca -------------------------------------------------------------------------------------


def throughput(loop: HotLoop) -> tuple[float, str] | None:
    """Cycles of one turn by `llvm-mca`, and its version; None where it is not installed.

    Also where it does not know this processor or one of the instructions: it may be older than
    Numba's LLVM.
    """
    from llvmlite import binding

    tool = shutil.which("llvm-mca")
    if tool is None:
        return None
    text = "\n".join([f"{loop.label}:", *(own.text for own in loop.instructions)])
    processor = f"-mcpu={binding.get_host_cpu_name()}"
    cycles = re.search(
        r"Total Cycles:\s+(\d+)", _output(tool, processor, "-iterations=100", input=text)
    )
    version = re.search(r"version (\S+)", _output(tool, "--version"))
    return (int(cycles[1]) / 100, version[1] if version else "") if cycles else None


def _output(*command: str, input: str = "") -> str:
    """What a command prints; nothing if it fails."""
    done = subprocess.run(command, input=input, capture_output=True, text=True, check=False)
    return "" if done.returncode else done.stdout
