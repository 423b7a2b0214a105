"""Reading x86-64 assembly in AT&T syntax, as LLVM writes it."""

from __future__ import annotations

import re

from fastgrad.profile.instructions import Instruction, class_of

__all__ = ["instruction", "jump_target", "step"]

#: Class: mnemonics. The first class that fits counts.
_CLASSES = {
    "call": r"call\w*",
    "branch": r"j\w+|ret\w*",
    "store past the cache": r"v?movnt\w+",
    "prefetch": r"prefetch\w*",
    "fused multiply-add": r"vfn?m(add|sub|addsub|subadd)\d+[ps][sdh]",
    "division": r"v?div[ps][sdh]",
    "square root": r"v?sqrt[ps][sdh]",
    "estimate of a reciprocal": r"v?r(cp|sqrt)\d*[ps][sdh]",
    "multiplication": r"v?mul[ps][sdh]|v?pmul\w+",
    "addition": r"v?(add|sub|addsub|hadd)[ps][sdh]",
    "minimum, maximum": r"v?p?(min|max)\w+",
    "scale by a power of two": r"v(scalef|getexp|getmant)\w+",
    "rounding": r"v?(round|rndscale)[ps][sdh]",
    "comparison": r"v?u?comis[sdh]|v?cmp\w*[ps][sdh]|v?pcmp\w+|v?p?testn?(m\w+|p[sd])?|vfpclass\w+",
    "blend": r"v?p?blend\w+",
    "conversion": r"v?cvt\w+|v?pmov[sz]x\w+|vpmovu?s?[qdw][dwb]|v?pack[su]s\w+",
    "shift": r"v?p(sll|srl|sra|rol|ror|shld|shrd)\w*",
    "bits": r"v?(andn?|or|xor)p[sd]|v?p(andn?|or|xor|ternlog)[dq]?",
    "integer addition": r"v?p(add|sub|abs)\w+",
    "broadcast": r"v?p?broadcast\w+|v?movddup|v?movs[hl]dup",
    "gather, scatter": r"vp?(gather|scatter)\w+",
    "permutation": r"v?p?(perm|shuf|unpck|insert|insr|extract|extr|align|compress|expand)\w*",
    "mask": r"k\w+",
    "move": r"v?mov([aul]?p[sd]|[lh]p[sd]|s[sdh]|dq[au]\d*|[dq])|v?lddqu",
    "address": r"movabs\w*|lea\w*",
    "loop control": r"(add|sub|inc|dec|cmp|test|neg|and|or|xor|shl|shr|sar|imul)[bwlq]?",
    "scalar move": r"mov\w*|cmov\w+|set\w+|push\w*|pop\w*|nop\w*|xchg\w*",
}

_BITS = {"x": 128, "y": 256, "z": 512}
#: On one lane: `ss`, `sd`, and what goes to or from a general register.
_SCALAR = r"(v(?!p|broadcast)|(?![vp]))\w+(s[sdh]|2u?sil?q?)|v?mov[dq]"
_ADDRESS = re.compile(r"\((?P<base>%\w+)?(,(?P<index>%\w+)(,\d)?)?\)")
#: Classes whose last operand, where it is in memory, is read.
_READ_ONLY = ("comparison", "loop control", "prefetch", "mask", "address", "call", "branch")


def instruction(text: str, advancing: frozenset[str] = frozenset()) -> Instruction:
    """Read one line.

    Parameters
    ----------
    advancing : frozenset of str
        Registers that the loop moves on: an address with one of them is that of elements.
    """
    mnemonic, *rest = text.split(None, 1)
    operands = rest[0] if rest else ""
    kind = class_of(mnemonic, _CLASSES)
    bits = max((_BITS[one] for one in re.findall(r"%([xyz])mm\d", operands)), default=0)
    if kind == "move" and not bits:
        kind = "scalar move"
    elif kind == "move" and "{%k" in operands and "(" not in operands:
        kind = "blend"  # of two registers, under a mask
    address = _ADDRESS.search(operands)
    reads_vectors = kind not in ("address", "call", "branch", "loop control", "scalar move")
    return Instruction(
        text,
        kind,
        bits,
        is_packed=bits > 0 and not re.fullmatch(_SCALAR, mnemonic),
        memory=_memory(address, operands, advancing) if address and reads_vectors else "",
        is_store=bool(address) and operands.endswith((")", "}")) and _is_written(operands, kind),
    )


def jump_target(text: str) -> str | None:
    """The label that a branch may go to."""
    match = re.fullmatch(r"j\w+\s+(\S+)", text)
    return match[1] if match else None


def step(text: str) -> tuple[str, int] | None:
    """The register that an instruction moves on by a constant, and by how much."""
    if match := re.fullmatch(r"(add|sub)[lq]\s+\$(-?\d+), (%\w+)", text):
        return match[3], int(match[2]) * (1 if match[1] == "add" else -1)
    if match := re.fullmatch(r"(inc|dec)[lq]\s+(%\w+)", text):
        return match[2], 1 if match[1] == "inc" else -1
    match = re.fullmatch(r"leaq\s+(-?\d+)\((%\w+)\), (%\w+)", text)
    return (match[3], int(match[1])) if match and match[2] == match[3] else None


def scale(text: str, register: str) -> int:
    """Bytes that one step of `register` moves the address of an instruction."""
    match = re.search(rf",{register},(\d)\)", text)
    return int(match[1]) if match else 1


def _memory(address: re.Match[str], operands: str, advancing: frozenset[str]) -> str:
    base, index = address["base"], address["index"]
    if base == "%rsp" and not index:
        return "spill"
    if "{1to" in operands or not advancing & {base, index}:
        return "constant"
    return "element"


def _is_written(operands: str, kind: str) -> bool:
    """Whether the operand in memory is the last one, which is the one that is written."""
    last = re.sub(r"\s*\{%k\d\}$", "", operands)
    return last.endswith(")") and kind not in _READ_ONLY
