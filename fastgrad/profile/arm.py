"""Reading AArch64 assembly as LLVM writes it: classes, and widths by the registers' names."""

from __future__ import annotations

import re

from fastgrad.profile.instructions import Instruction, class_of

__all__ = ["instruction", "jump_target", "step"]

#: Class: mnemonics. The first class that fits counts.
_CLASSES = {
    "call": r"blr?",
    "branch": r"b|b\.\w+|cbn?z|tbn?z|ret|br",
    "store past the cache": r"stnp",
    "fused multiply-add": r"fn?m(la|ls|add|sub)|fmad|fmsb",
    "division": r"fdivr?",
    "square root": r"fsqrt",
    "estimate of a reciprocal": r"f(rsqrt|recp)\w",
    "multiplication": r"f?mul",
    "addition": r"fadd|fsub|fabd",
    "minimum, maximum": r"f(min|max)\w*",
    "rounding": r"frint\w",
    "comparison": r"f?cm(eq|ge|gt|le|lt|hi|hs)|fac\w\w|fcmp",
    "blend": r"bsl|bit|bif|sel|fcsel",
    "conversion": r"fcvt\w*|[us]cvtf|[us]?q?xtn2?|[us]shll2?|shll2?|uzp1",
    "shift": r"shl|[us]sh[lr]|sli|sri",
    "bits": r"and|orr|eor|bic|orn|fneg|fabs",
    "move": r"dup|movi|mvni|f?mov|ins|ld\w+|st\w+",
    "address": r"adrp?",
    "loop control": r"adds?|subs?|cmp|cmn|tst",
}


def instruction(text: str, advancing: frozenset[str] = frozenset()) -> Instruction:
    """Read one line; see `fastgrad.profile.x86.instruction`."""
    mnemonic, *rest = text.split(None, 1)
    operands = rest[0] if rest else ""
    is_packed = bool(re.search(r"\b[vz]\d+\.\d*[bhsd]\b|\bq\d+\b", operands))
    kind = class_of(mnemonic, _CLASSES)
    if is_packed and mnemonic in ("add", "sub"):
        kind = "integer addition"
    return Instruction(
        text,
        kind,
        bits=128 if is_packed else 64 if re.search(r"\b[hsd]\d+\b", operands) else 0,
        is_packed=is_packed,
        memory=_memory(operands, advancing) if mnemonic.startswith(("ld", "st")) else "",
        is_store=mnemonic.startswith("st"),
    )


def jump_target(text: str) -> str | None:
    """The label that a branch may go to."""
    match = re.fullmatch(r"(b|b\.\w+|cbn?z|tbn?z)\s+(.*,\s*)?(\.?\w+)", text)
    return match[3] if match else None


def step(text: str) -> tuple[str, int] | None:
    """The register that an instruction moves on by a constant, and by how much."""
    match = re.fullmatch(r"(add|sub)s?\s+(x\d+), (x\d+), #(\d+)", text)
    if match and match[2] == match[3]:
        return match[2], int(match[4]) * (1 if match[1] == "add" else -1)
    match = re.search(r"\[(x\d+)\], #(-?\d+)$", text)  # by a load or store itself
    return (match[1], int(match[2])) if match else None


def scale(text: str, register: str) -> int:
    """Bytes that one step of `register` moves the address of an instruction."""
    match = re.search(rf"{register}, lsl #(\d)\]", text)
    return 1 << int(match[1]) if match else 1


def _memory(operands: str, advancing: frozenset[str]) -> str:
    if "[sp" in operands:
        return "spill"
    return "element" if advancing & set(re.findall(r"x\d+", operands)) else "constant"
