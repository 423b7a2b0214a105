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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..kernels.template import local_name
from ..vector_unit.precision import Precision
from .cost import instruction_cost
from .emit import instruction
from .expression import ROW_LENGTH, Node, operand, walk
from .optimize import split_factors
from .row_derive import substitute
from .row_program import FULL, PER_CHANNEL, PER_ROW, RowProgram, passes_below
from .tails import exact_tails

__all__ = ["Lanes", "Pass", "RowText", "added"]


#: Nanoseconds; a value that costs more is kept between passes.
_DEAR = 0.2


@dataclass
class Pass:
    """What one pass is made of, as lines of text.

    Attributes
    ----------
    before : list of str
        Compute numbers of the row, once those of the passes before are known.
    reads : list of str
        Numbers of the row that its lanes read.
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
    accumulators : dict of str to bool
        Sums of a channel, where these are apart from the totals; whether they are squares, in float64.
    uses : list of str
        What they are added to.
    in_two : set of str
        Numbers of the row that are read in two parts.
    """

    before: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    sums: list[str] = field(default_factory=list)
    moments: list[tuple[str, str]] = field(default_factory=list)
    tile: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    reads_channels: bool = False
    accumulators: dict[str, bool] = field(default_factory=dict)
    uses: list[str] = field(default_factory=list)
    in_two: set[str] = field(default_factory=set)

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
    keeps : bool
        Whether what is dear to compute, and needed in two passes, is kept between them, in a buffer as
        long as a row.
    """

    def __init__(
        self,
        program: RowProgram,
        precision: Precision,
        by_run: bool,
        keeps: bool = True,
        lanes: type[Lanes] | None = None,
    ):
        self._lanes = lanes or Lanes
        self.program, self.precision, self.by_run = program, precision, by_run
        self.keeps = keeps
        self._depth = passes_below(program.nodes)
        kept = self._find_kept()
        #: What is kept, by the operand that stands for it, and the first pass that needs it.
        self.kept = {operand(f"_kept{k}", True): own for k, own in enumerate(kept.items())}
        self.kept_names = [_kept_name(own) for own in self.kept] if keeps else []
        self._stand_ins = {node: own for own, (node, _) in self.kept.items()}
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

    def _roots(self, index: int) -> list[Node]:
        """What the lanes of pass `index` compute."""
        program, is_last = self.program, index == self.program.passes - 1
        roots = [own.args[0] for own in program.reductions if self._depth[own] == index + 1]
        for result in program.named(PER_CHANNEL):
            if self._depth[result.value] == index if self.by_run else is_last:
                roots.append(result.value)
        return roots + [result.value for result in program.named(FULL) if is_last]

    def _find_kept(self) -> dict[Node, int]:
        """Values that an earlier pass and the last one need, and that are dear; with that earlier pass."""
        last = self.program.passes - 1
        needed = set(_lanes_below(self._roots(last)))
        found: dict[Node, int] = {}
        for index in range(last):
            for node in _lanes_below(self._roots(index)):
                if node in needed and node not in found and self._is_dear(node):
                    found[node] = index
        parts = {part for node in found for part in _lanes_below([node]) if part is not node}
        return {node: index for node, index in found.items() if node not in parts}

    def _is_dear(self, node: Node) -> bool:
        """Whether to compute it costs more than to store and to load it."""
        lowered = walk(*exact_tails(node))
        own = (part for part in lowered if part.args and part.is_array)
        return sum(instruction_cost(part.op, self.precision) for part in own) > _DEAR

    def cut_kept(self, own: Node) -> Node:
        """What the operand `own` stands for."""
        return self._cut(self.kept[own][0], {})

    def _cut(self, value: Node, stand_ins: Mapping[Node, Node] | None = None) -> Node:
        """`value` with operands for what is kept, for numbers of the row, and for a channel's by run."""
        mapping = dict(self._stand_ins if stand_ins is None else stand_ins)
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
        text = self._lanes(self, index)
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
        is_last = index == program.passes - 1
        for result in program.named(PER_CHANNEL):
            if self.by_run and self._depth[result.value] == index:
                lanes = self._cut(result.value)
                text.add_to_channel(*self._split(lanes), local_name(result.name))
            elif is_last and not self.by_run:
                text.write_channel(self._cut(result.value), local_name(result.name))
        if is_last:
            for result in program.named(FULL):
                text.write(self._cut(result.value), local_name(result.name))
        for stand_in, (_, first) in self.kept.items():
            if self.keeps and first == index:
                text.keep(stand_in)
        text.finish(own)

    def _split(self, lanes: Node) -> tuple[Node, Node | None]:
        return split_factors(lanes) if lanes.is_array and self.by_run else (lanes, None)


class Lanes:
    """Collects what a pass does with a tile."""

    def __init__(self, text: RowText, index: int):
        self._text, self._index = text, index
        self._accumulated: dict[tuple[Node, bool], str] = {}
        self._moments: dict[Node, tuple[str, str]] = {}
        self._writes: list[tuple[Node, str]] = []
        self._added: list[tuple[Node, str]] = []
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

    def keep(self, stand_in: Node) -> None:
        """Store what a later pass needs."""
        self._writes.append((stand_in, f"write({_kept_name(stand_in)}_t, i, {{}})"))

    def write_channel(self, lanes: Node, name: str) -> None:
        """Add to the sum of a lane's own channel."""
        self._added.append((lanes, f"{name}_t"))

    def finish(self, own: Pass) -> None:
        """Write the loops of the pass."""
        for lanes, pair in self._moments.items():
            own.moments.append(pair)
            own.tile += self._moments_of(lanes, *pair)
        if self._accumulated or self._writes or self._added:
            own.tile += [*self._loop(), *self._uses]
        names = (
            *self._text.program.channels,
            *(r.name for r in self._text.program.named(PER_CHANNEL)),
        )
        words = set(re.findall(r"\w+", " ".join(own.tile)))
        locals_ = {f"{local_name(name)}{end}" for name in names for end in ("", "_t", "_f")}
        own.reads_channels = bool(words & locals_)
        own.reads = list(self._numbers)
        for number in own.reads:
            own.numbers.append(f"{number}_f = f({number})")
            if number in self._in_two:
                own.numbers.append(f"{number}_lo = f({number} - np.float64({number}_f))")

    def _moments_of(self, lanes: Node, mean: str, squares: str) -> list[str]:
        """Mean and squared distances of a tile.

        In float64, in which what is taken about the first lane loses no more than the number of lanes: too
        little to show in float32. A float64 tile is gone through twice, the second time about its mean.
        """
        lines, [(own,)] = self._values([lanes])
        loop = ["for i in range(m):", *(f"    {line}" for line in lines)]
        first = ["for i in range(1):", *(f"    {line}" for line in lines)]
        value = f"np.float64({own})"
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
        body = self._body()
        names = list(self._accumulated.values())
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

    def _body(self) -> list[str]:
        """What the loops do with lane i."""
        plain = [
            (lanes, name) for (lanes, squared), name in self._accumulated.items() if not squared
        ]
        squares = [(lanes, name) for (lanes, squared), name in self._accumulated.items() if squared]
        summed = [*plain, *self._added]
        everything = [*summed, *squares, *self._writes]
        body, values = self._values([lanes for lanes, _ in everything], len(summed))
        found = iter(values)
        body += [self._accumulate(name, next(found), "f") for _, name in plain]
        for _, tile in self._added:
            body.append(f"write_sum({tile}, i, {added(f'read_sum({tile}, i)', next(found))})")
        body += [self._accumulate(name, next(found) * 2, "np.float64") for _, name in squares]
        return body + [template.format(*next(found)) for _, template in self._writes]

    def _accumulate(self, name: str, value: tuple[str, ...], kind: str) -> str:
        """A line that adds a value, or the product of two, to an accumulator."""
        terms = ", ".join(f"{kind}({own})" for own in value)
        function = "accumulate" if len(value) == 1 else "accumulate_product"
        return f"{name}_l = {function}({name}_l, {terms})"

    def _values(
        self, roots: Sequence[Node], summed: int = 0
    ) -> tuple[list[str], list[tuple[str, ...]]]:
        """Lines that compute `roots` for lane i, and what they are called.

        The first `summed` of them are added to something: a product of lanes is left as its two factors.
        """
        names: dict[Node, str] = {}
        lines: list[str] = []
        lowered = exact_tails(*roots)
        products = self._emit(lowered, summed, lines, names)
        return lines, [
            tuple(names[arg] for arg in (root.args if root in products else (root,)))
            for root in lowered
        ]

    def _emit(
        self, lowered: Sequence[Node], summed: int, lines: list[str], names: dict[Node, str]
    ) -> set[Node]:
        """Add lines and names; returns the products that have none, as a sum takes them in."""
        products = _fused_products(lowered, summed)
        for node in walk(*lowered):
            if node in names:
                continue
            if node in self._text.kept:
                names[node] = self._kept(node, lines, names)
            elif not node.args:
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
        return products

    def _kept(self, node: Node, lines: list[str], names: dict[Node, str]) -> str:
        """A value that is kept between passes: computed apart from all else, or read where that was done.

        So it has the same bits wherever it is computed.
        """
        if self._text.keeps and self._index > self._text.kept[node][1]:
            name = f"{_kept_name(node)}_i"
            lines.append(f"{name} = read({_kept_name(node)}_t, i)")
            return name
        (lowered,) = exact_tails(self._text.cut_kept(node))
        self._emit([lowered], 0, lines, names)
        return names[lowered]

    def _leaf(self, node: Node, lines: list[str]) -> str:
        if node.op == "const":
            return f"f({repr(node.value).replace('inf', 'np.inf').replace('nan', 'np.nan')})"
        if not node.is_array:
            if self._is_channel(node):
                return self._channel(local_name(node.name), lines)
            self._numbers[node.name] = None
            return self._row_number(node.name, lines)
        name = local_name(node.name)
        load = "" if node.name in self._text.program.channels else self._text.precision.load
        value = f"read({name}_t, i)"
        lines.append(f"{name}_i = {load}({value})" if load else f"{name}_i = {value}")
        return f"{name}_i"

    def _channel(self, name: str, lines: list[str]) -> str:
        """A parameter that is one number for all lanes of the tile."""
        return f"{name}_f"

    def _row_number(self, name: str, lines: list[str]) -> str:
        """A number of the row, in the compute dtype."""
        return f"{name}_f"

    def _low(self, name: str, lines: list[str]) -> str:
        """What the compute dtype leaves of it."""
        return f"{name}_lo"

    def _instruction(self, name: str, node: Node, args: list[str]) -> list[str]:
        precision = self._text.precision
        if node.op == "rounded":
            value = f"{precision.load}({precision.store}({args[0]}))" if precision.load else args[0]
            return [f"{name} = {value}"]
        if node.op == "sub" and precision.compute == "float32" and self._is_number(node.args[1]):
            # A mean in float64, in two parts: what lies near it loses nothing.
            own = node.args[1].name
            self._in_two.add(own)
            lines: list[str] = []
            low = self._low(own, lines)
            return [*lines, f"{name} = ({args[0]} - {args[1]}) - {low}"]
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


def _kept_name(stand_in: Node) -> str:
    """What the buffer of a kept value is called."""
    return stand_in.name.removeprefix("_")


def _lanes_below(roots: Sequence[Node]) -> Iterator[Node]:
    """The instructions over lanes that `roots` are made of, not those below a number of the row."""
    seen: set[Node] = set()
    todo = list(roots)
    while todo:
        node = todo.pop()
        if node.is_array and node.args and node not in seen:
            seen.add(node)
            todo += node.args
            yield node


def added(total: str, value: tuple[str, ...]) -> str:
    """`total` and a value, or a product, rounded once, in the order of the program."""
    terms = [f"f({name})" for name in value]
    return f"{total} + {terms[0]}" if len(terms) == 1 else f"fma({', '.join(terms)}, {total})"


def _fused_products(roots: Sequence[Node], summed: int = 0) -> set[Node]:
    """Products that a sum takes in without rounding them: those of lanes that nothing else reads.

    Among them those of the first `summed` roots that are products.
    """
    reads = Counter(arg for node in walk(*roots) for arg in node.args)
    reads.update(roots)

    def is_free(node: Node) -> bool:
        return node.op in ("mul", "scale") and node.is_array and reads[node] == 1

    found = {node for node in roots[:summed] if is_free(node)}
    for node in walk(*roots):
        if node.op == "add":
            found.update([arg for arg in node.args if is_free(arg)][:1])
    return found
