"""A machine instruction as the listing shows it: its class, its width, its operand in memory.

The names of the classes are those that listings and counts show. `x86` and `arm` read the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["ARITHMETIC", "Instruction", "class_of"]

#: Classes that compute elements: what tells a vectorised loop from a scalar one.
ARITHMETIC = frozenset(
    (
        *("fused multiply-add", "division", "square root", "estimate of a reciprocal"),
        *("multiplication", "addition", "minimum, maximum", "rounding", "scale by a power of two"),
        *("comparison", "blend", "conversion", "shift", "bits", "integer addition"),
    )
)

_OPERANDS = {
    "element": "elements in memory",
    "constant": "a constant",
    "spill": "a spilled register",
}
_LOADS = {
    "element": "load of elements",
    "constant": "constant",
    "spill": "reload of a spilled register",
}
# Where the class alone says too little.
_NOTES = {"address": "address of a constant", "branch": "jump, if there is more"}


@dataclass(frozen=True)
class Instruction:
    """One line of a listing.

    Attributes
    ----------
    text : str
        Mnemonic and operands.
    kind : str
        Its class: ``"fused multiply-add"``.
    bits : int
        Of the widest vector register that it names, 0 without one.
    is_packed : bool
        Whether it works on all lanes of its registers.
    memory : str
        What its operand in memory is: ``"element"``, ``"constant"``, ``"spill"``; else empty.
    is_store : bool
        Whether it writes that operand.
    """

    text: str
    kind: str
    bits: int = 0
    is_packed: bool = False
    memory: str = ""
    is_store: bool = False

    @property
    def computes(self) -> bool:
        """Whether it works on elements in vector registers: on all lanes, or on a single one."""
        return self.bits > 0 and self.kind in ARITHMETIC

    @property
    def meaning(self) -> str:
        """The note beside the line."""
        if self.is_store:
            return self._store()
        if self.kind in ("move", "broadcast") and self.memory:
            return _LOADS[self.memory]
        scalar = "scalar " if self.computes and not self.is_packed else ""
        operand = f", with {_OPERANDS[self.memory]}" if self.memory else ""
        return scalar + _NOTES.get(self.kind, self.kind) + operand

    def _store(self) -> str:
        if self.memory == "spill":
            return "spill"
        if self.kind == "store past the cache":
            return "store of results, past the cache"
        return "store of results" + (f" after {self.kind}" if self.computes else "")


def class_of(mnemonic: str, classes: Mapping[str, str]) -> str:
    """The first class whose pattern is the whole mnemonic."""
    for name, pattern in classes.items():
        if re.fullmatch(pattern, mnemonic):
            return name
    return "other"
