"""The compiler of row programs: for each pass a fused loop over a tile, and the numbers between passes.

A pass is a loop over a tile, which adds to sums and, in the last pass, writes the results. Where a variance
is taken, a loop before it finds mean and squared distances of the tile. `kernels/rows.py` joins them.

Two forms of the same program differ in its channels. By *lane*, every lane is a channel of its own, as in
a layer norm: parameters are tiles, and their gradients are added to lane by lane. By *run*, some lanes in a
row share a channel, as in a group norm: a parameter is one number, and sums over a run are multiplied with
it afterwards, so that the sums of the row and those of its channels are the same few.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..kernels.template import local_name
from ..vector_unit.precision import Precision
from .emit import instruction
from .expression import ROW_LENGTH, Node, operand, walk
from .optimize import split_factors
from .row_derive import substitute
from .row_program import FULL, PER_CHANNEL, PER_ROW, RowProgram, passes_below
from .tails import exact_tails

__all__ = ["Pass", "RowText"]


@dataclass
class Pass:
    """What one pass is made of, as lines of text.

    Attributes
    ----------
    before : list of str
        Compute numbers of the row, once those of the passes before are known.
    numbers : list of str
        Have these numbers in the compute dtype.
    sums : list of str
        Names of the totals of this pass: plain sums.
    moments : list of (str, str)
        Pairs of totals: a mean and squared distances.
    tile : list of str
        Compute a tile of `m` lanes, and add to the totals of a piece, which end in ``_p``.
    after : list of str
        Make its reductions of the totals.
    reads_channels : bool
        Whether a tile must lie in one run of lanes that share a channel.
    """

    before: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    sums: list[str] = field(default_factory=list)
    moments: list[tuple[str, str]] = field(default_factory=list)
    tile: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    reads_channels: bool = False

    @property
    def totals(self) -> list[str]:
        """All totals, in order."""
        return [*self.sums, *(name for pair in self.moments for name in pair)]


class RowText:
    """The text of a row program in one precision.

    Parameters
    ----------
    program : RowProgram
    precision : Precision
        Of its arrays.
    by_run : bool
        Whether runs of lanes share a channel; else each lane is one.
    """

    def __init__(self, program: RowProgram, precision: Precision, by_run: bool):
        self.program, self.precision, self.by_run = program, precision, by_run
        self._depth = passes_below(program.nodes)
        self._names: dict[Node, str] = {}
        self._channels = {name: operand(name, True) for name in program.channels}
        for name in (*program.numbers, *program.per_row):
            self._names[operand(name, False)] = local_name(name)
        self._names[ROW_LENGTH] = "row_length"
        self.passes = [Pass() for _ in range(program.passes)]
        self.last = Pass()  # what is left to compute when all passes have ended
        for index in range(program.passes):
            self._make(index)
        #: Lines that leave the results of one number a row.
        self.row_results = [
            f"{local_name(result.name)}_rows[row] = {self._number(result.value)}"
            for result in program.named(PER_ROW)
        ]

    # --- Numbers of a row -----------------------------------------------------------------------

    def _number(self, node: Node) -> str:
        """The name of a number, with a line that computes it where its passes have ended."""
        if node.op == "const":
            return repr(node.value).replace("inf", "np.inf").replace("nan", "np.nan")
        if node not in self._names:
            args = [self._number(arg) for arg in node.args]
            name = self._names[node] = f"r{len(self._names)}"
            if node.op == "rstd":
                line = f"{name} = 1.0 / np.sqrt({args[0]} + {args[1]})"
            else:
                (line,) = instruction(name, node, [f"np.float64({arg})" for arg in args])
            depth = self._depth[node]
            where = self.passes[depth] if depth < len(self.passes) else self.last
            where.before.append(line)
        return self._names[node]

    # --- Lanes ----------------------------------------------------------------------------------

    def _cut(self, value: Node) -> Node:
        """`value` with an operand for every number of the row, and for a channel's by run."""
        mapping: dict[Node, Node] = {}
        if self.by_run:
            mapping.update({node: operand(name, False) for name, node in self._channels.items()})

        def visit(node: Node) -> None:
            if node in mapping:
                return
            if not node.is_array:
                if node.op != "const":
                    mapping[node] = operand(self._number(node), False)
                return
            for arg in node.args:
                visit(arg)

        visit(value)
        return substitute(value, mapping)

    def _make(self, index: int) -> None:
        """Fill in pass `index`."""
        own, program = self.passes[index], self.program
        mine = [r for r in program.reductions if self._depth[r] == index + 1]
        spread = [r.args[0] for r in mine if r.op == "reduce_variance"]
        text = _Lanes(self, index)
        for count, node in enumerate(mine):
            total = f"s{index}_{count}"
            self._names[node] = total
            value = node.args[0]
            if value in spread and node.op in ("reduce_variance", "reduce_mean"):
                mean, squares = text.moments(self._cut(value))
                own.after.append(
                    f"{total} = {mean}"
                    if node.op == "reduce_mean"
                    else f"{total} = {squares} / row_length"
                )
                continue
            lanes = self._cut(value)
            squared = node.op == "reduce_mean_square"
            if squared:
                text.add(lanes, None, total, squared)
            else:
                text.add(*self._split(lanes), total, squared)
            own.sums.append(total)
            if node.op != "reduce_sum":
                own.after.append(f"{total} = {total} / row_length")
        for result in program.named(PER_CHANNEL):
            if self._depth[result.value] == index:
                lanes = self._cut(result.value)
                if self.by_run:
                    text.add_to_channel(*self._split(lanes), local_name(result.name))
                else:
                    text.write_channel(lanes, local_name(result.name))
        if index == program.passes - 1:
            for result in program.named(FULL):
                text.write(self._cut(result.value), local_name(result.name))
        text.finish(own)

    def _split(self, lanes: Node) -> tuple[Node, Node | None]:
        return split_factors(lanes) if lanes.is_array and self.by_run else (lanes, None)


class _Lanes:
    """Collects what a pass does with a tile."""

    def __init__(self, text: RowText, index: int):
        self._text, self._index = text, index
        self._accumulated: dict[tuple[Node, bool], str] = {}
        self._moments: dict[Node, tuple[str, str]] = {}
        self._writes: list[tuple[Node, str]] = []
        self._uses: list[str] = []
        self._numbers: dict[str, None] = {}
        self._in_two: set[str] = set()

    def add(self, lanes: Node, factor: Node | None, total: str, squared: bool) -> None:
        """Add lanes·factor, or the squares of lanes, to a total of the row."""
        value = self._accumulator(lanes, squared)
        self._uses.append(f"{total}_p += {value}{self._times(factor)}")

    def add_to_channel(self, lanes: Node, factor: Node | None, name: str) -> None:
        """Add lanes·factor to the sum of the channel."""
        value = self._accumulator(lanes, False)
        where = f"{name}[partial * channels + offset + channel]"
        self._uses.append(f"{where} += {value}{self._times(factor)}")

    def _times(self, factor: Node | None) -> str:
        return "" if factor is None else f" * ({self._formula(factor)})"

    def _accumulator(self, lanes: Node, squared: bool) -> str:
        return self._accumulated.setdefault((lanes, squared), f"a{len(self._accumulated)}")

    def moments(self, lanes: Node) -> tuple[str, str]:
        """The totals that hold mean and squared distances of `lanes`."""
        names = f"m{self._index}_{len(self._moments)}", f"q{self._index}_{len(self._moments)}"
        return self._moments.setdefault(lanes, names)

    def write(self, lanes: Node, name: str) -> None:
        """A lane of a result."""
        store = self._text.precision.store
        value = f"{store}({{}})" if store else "{}"
        self._writes.append((lanes, f"write({name}_t, i, {value})"))

    def write_channel(self, lanes: Node, name: str) -> None:
        """Add to the sum of a lane's own channel."""
        add = f"write({name}_t, i, read({name}_t, i) + f({{}}))"
        self._writes.append((lanes, add))

    def finish(self, own: Pass) -> None:
        """Write the loops of the pass."""
        for lanes, pair in self._moments.items():
            own.moments.append(pair)
            own.tile += self._moments_of(lanes, *pair)
        if self._accumulated or self._writes:
            own.tile += [*self._loop(), *self._uses]
        names = (
            *self._text.program.channels,
            *(r.name for r in self._text.program.named(PER_CHANNEL)),
        )
        words = set(re.findall(r"\w+", " ".join(own.tile)))
        locals_ = {f"{local_name(name)}{end}" for name in names for end in ("", "_t", "_f")}
        own.reads_channels = bool(words & locals_)
        for number in self._numbers:
            own.numbers.append(f"{number}_f = f({number})")
            if number in self._in_two:
                own.numbers.append(f"{number}_lo = f({number} - np.float64({number}_f))")

    def _moments_of(self, lanes: Node, mean: str, squares: str) -> list[str]:
        """Mean and squared distances of a tile.

        In float64, in which what is taken about the first lane loses no more than the number of lanes: too
        little to show in float32. A float64 tile is gone through twice, the second time about its mean.
        """
        lines, values = self._values([lanes])
        loop = ["for i in range(m):", *(f"    {line}" for line in lines)]
        first = ["for i in range(1):", *(f"    {line}" for line in lines)]
        value = f"np.float64({values[0]})"
        is_wide = self._text.precision.compute == "float64"
        about_mean = [
            "total = 0.0",
            *loop,
            f"    total = accumulate(total, {value})",
            "mean_t = total / m",
        ]
        about_first = ["mean_t = 0.0", *first, f"    mean_t = {value}"]
        return [
            *(about_mean if is_wide else about_first),
            "shift = 0.0",
            "squares = 0.0",
            *loop,
            f"    distance = {value} - mean_t",
            "    shift = accumulate(shift, distance)",
            "    squares = accumulate_product(squares, distance, distance)",
            "squares = max(squares - shift * shift / m, 0.0)",
            f"{mean}_p, {squares}_p = merge_moments("
            f"position - begin, {mean}_p, {squares}_p, m, mean_t + shift / m, squares)",
        ]

    def _loop(self) -> list[str]:
        """The loops that fill the accumulators and write the results, `SUMMED` lanes at a time."""
        roots = [*(lanes for lanes, _ in self._accumulated), *(lanes for lanes, _ in self._writes)]
        lines, values = self._values(roots)
        names = list(self._accumulated.values())
        body = list(lines)
        for ((_, squared), name), value in zip(self._accumulated.items(), values, strict=False):
            kind = "np.float64" if squared else "f"
            term = f"accumulate({name}_l, {kind}({value}))"
            if squared:
                term = f"accumulate_product({name}_l, {kind}({value}), {kind}({value}))"
            body.append(f"{name}_l = {term}")
        for (_, template), value in zip(self._writes, values[len(names) :], strict=True):
            body.append(template.format(value))
        if not names:
            return ["for i in range(m):", *(f"    {line}" for line in body)]
        kinds = {
            name: "0.0" if squared else "f(0.0)" for (_, squared), name in self._accumulated.items()
        }
        return [
            *(f"{name} = 0.0" for name in names),
            "for first in range(0, m, SUMMED):",
            *(f"    {name}_l = {zero}" for name, zero in kinds.items()),
            "    for i in range(first, min(first + SUMMED, m)):",
            *(f"        {line}" for line in body),
            *(f"    {name} += np.float64({name}_l)" for name in names),
        ]

    def _values(self, roots: Sequence[Node]) -> tuple[list[str], list[str]]:
        """Lines that compute `roots` for lane i, and what they are called."""
        lowered = exact_tails(*roots)
        products = _fused_products(lowered)
        names: dict[Node, str] = {}
        lines: list[str] = []
        for node in walk(*lowered):
            if not node.args:
                names[node] = self._leaf(node, lines)
            elif node in products:
                continue  # the sum that it is in computes it
            else:
                names[node] = f"v{len(lines)}"
                product = next((arg for arg in node.args if arg in products), None)
                if node.op == "add" and product is not None:
                    (other,) = (arg for arg in node.args if arg is not product)
                    three = ", ".join(names[arg] for arg in (*product.args, other))
                    lines.append(f"{names[node]} = fma({three})")
                else:
                    args = [names[arg] for arg in node.args]
                    lines += self._instruction(names[node], node, args)
        return lines, [names[node] for node in lowered]

    def _leaf(self, node: Node, lines: list[str]) -> str:
        if node.op == "const":
            return f"f({repr(node.value).replace('inf', 'np.inf').replace('nan', 'np.nan')})"
        if not node.is_array:
            if self._is_channel(node):
                return f"{local_name(node.name)}_f"
            self._numbers[node.name] = None
            return f"{node.name}_f"
        name = local_name(node.name)
        load = "" if node.name in self._text.program.channels else self._text.precision.load
        value = f"read({name}_t, i)"
        lines.append(f"{name}_i = {load}({value})" if load else f"{name}_i = {value}")
        return f"{name}_i"

    def _instruction(self, name: str, node: Node, args: list[str]) -> list[str]:
        precision = self._text.precision
        if node.op == "rounded":
            value = f"{precision.load}({precision.store}({args[0]}))" if precision.load else args[0]
            return [f"{name} = {value}"]
        if node.op == "sub" and precision.compute == "float32" and self._is_number(node.args[1]):
            # A mean in float64, in two parts: what lies near it loses nothing.
            low = args[1].removesuffix("_f") + "_lo"
            self._in_two.add(node.args[1].name)
            return [f"{name} = ({args[0]} - {args[1]}) - {low}"]
        return instruction(name, node, args)

    def _is_number(self, node: Node) -> bool:
        """Whether it is a number of the row: those of a channel are not known any better."""
        return node.op == "operand" and not node.is_array and not self._is_channel(node)

    def _is_channel(self, node: Node) -> bool:
        return node.name in self._text.program.channels

    def _formula(self, node: Node) -> str:
        """A number made of operands alone, as one formula."""
        if node.op == "const":
            return repr(node.value)
        if node.op == "operand":
            is_channel = self._is_channel(node)
            return f"np.float64({local_name(node.name) + '_t' if is_channel else node.name})"
        (line,) = instruction("", node, [f"({self._formula(arg)})" for arg in node.args])
        return line.removeprefix(" = ")


def _fused_products(roots: Sequence[Node]) -> set[Node]:
    """Products that a sum takes in without rounding them: those of lanes that nothing else reads."""
    reads = Counter(arg for node in walk(*roots) for arg in node.args)
    reads.update(roots)
    found: set[Node] = set()
    for node in walk(*roots):
        if node.op == "add":
            own = [
                arg
                for arg in node.args
                if arg.op in ("mul", "scale") and arg.is_array and reads[arg] == 1
            ]
            found.update(own[:1])
    return found
