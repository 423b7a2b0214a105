"""Row programs from a line of maths, and their derivatives.

A reduction makes every lane of a row depend on every other. The derivative takes the reductions as
variables: with ρ one of them, y = F(x, ρ) lane by lane, and

    dx_i = dy_i · ∂F_i/∂x + Σ_ρ dρ · ∂ρ/∂x_i        dρ = Σ_i dy_i · ∂F_i/∂ρ + Σ_σ dσ · ∂σ/∂ρ

for the σ that are made of ρ, from the last to the first. The slopes ∂F are those of `derive`, forward
mode over one lane. The root of a variance or mean square (`rstd`) is a variable of its own: its slope
in units of the normalised value neither overflows nor cancels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .derive import derivative
from .expression import RANDOM, REDUCTIONS, ROW_LENGTH, Node, const, operand, walk
from .maths import Traced, TraceError, _node, as_number
from .optimize import build, negated, reuse_products, split_factors
from .row_program import FULL, PER_CHANNEL, PER_ROW, RowProgram, RowResult

__all__ = [
    "Kinds",
    "incoming_gradients",
    "substitute",
    "trace_given_rows",
    "trace_rows",
    "trace_rows_backward",
]

#: Of each operand, in order: ``"array"``, ``"channel"``, ``"row"`` (one number a row) or ``"number"``.
Kinds = Mapping[str, str]


def trace_rows(function: Callable, name: str, kinds: Kinds) -> RowProgram:
    """The forward program of `function`, which returns a value, or values, for every lane."""
    traced = function(*(Traced(_operand(own, kinds)) for own in kinds))
    values = traced if isinstance(traced, tuple) else (traced,)
    if traced is None or not values:
        raise TraceError(f"{name} must return a value for every lane, got {traced!r}")
    nodes = [as_number(_node(value)) for value in values]
    if not all(node.is_array for node in nodes):
        raise TraceError(f"each result of {name} must have a value for every lane")
    if RANDOM in walk(*nodes):
        raise TraceError(f"{name} reduces over rows: random numbers are for @fastgrad.seeded")
    names = [_free("out" if "y" in kinds else "y", kinds)]
    for index in range(1, len(nodes)):
        names.append(_free(f"result{index}", kinds))
    results = [RowResult(own, node) for own, node in zip(names, nodes, strict=True)]
    return _program(name, kinds, results)


def incoming_gradients(forward: RowProgram) -> list[str]:
    """What the gradient of each result is called."""
    return ["dy", *(f"d{result.name}" for result in forward.named(FULL)[1:])]


def _free(name: str, kinds: Kinds, others: Sequence[str] = ()) -> str:
    """`name`, or one like it, that neither it nor its gradient's is an operand's name."""
    while {name, f"d{name}"} & {*kinds, *others}:
        name += "_"
    return name


def trace_rows_backward(
    forward: RowProgram,
    kinds: Kinds,
    wrt: Sequence[str],
    saved: Mapping[str, Node] | None = None,
) -> RowProgram:
    """The derived backward program: gradients of the operands named in `wrt`.

    Parameters
    ----------
    forward : RowProgram
        Every result that has a value a lane has an incoming gradient: ``dy``, or ``d`` and its name.
    kinds : mapping of str to str
        Of its operands.
    wrt : sequence of str
        Operands.
    saved : mapping of str to Node
        Values of the forward program, one a row, that backward is given under these names; it
        computes all others again.
    """
    variables = _Variables.of(forward)
    full = forward.named(FULL)
    incoming = incoming_gradients(forward)
    seeds = [operand(name, True) for name in incoming]
    values = [variables.cut(result.value) for result in full]
    seeds, values, inner = _opened(seeds, values, variables, kinds)
    gradients = _row_gradients(variables, seeds, values)
    results = [
        _as_result(
            name,
            _gradient(variables, seeds, values, gradients, _operand(name, kinds)),
            kinds,
            incoming,
        )
        for name in wrt
    ]
    given = {node: operand(name, False) for name, node in (saved or {}).items()}

    def known(value: Node) -> Node:
        return substitute(variables.whole(substitute(value, inner)), given)

    results = [dataclasses.replace(own, value=known(own.value)) for own in results]
    all_kinds = {
        **dict.fromkeys(incoming, "array"),
        **kinds,
        **dict.fromkeys(saved or (), "row"),
    }
    return _program(_gradient_name(forward, wrt, "_saved" if saved else ""), all_kinds, results)


def trace_given_rows(
    forward: RowProgram,
    kinds: Kinds,
    wrt: Sequence[str],
    function: Callable,
    missing: Mapping[str, None],
) -> RowProgram:
    """The backward program of a function of ``dy`` and the operands, which returns all gradients.

    One for each operand in order: of an array or channel a value for every lane; what a number gets is
    summed over the lanes.
    """
    if len(forward.named(FULL)) > 1:
        raise TraceError(
            f"{forward.name} has several results: its backward cannot be given by hand"
        )
    operands = {name: Traced(_operand(name, kinds)) for name in kinds}
    traced = function(Traced(operand("dy", True)), **operands, **missing)
    given = tuple(traced) if isinstance(traced, tuple | list) else (traced,)
    if len(given) != len(kinds):
        raise TraceError(
            f"the backward of {forward.name} gives {len(given)} gradients, "
            f"it takes one for each of {len(kinds)} operands: {', '.join(kinds)}"
        )
    nodes = dict(zip(kinds, (as_number(_node(value)) for value in given), strict=True))
    results = [_as_result(name, nodes[name], kinds, ["dy"]) for name in wrt]
    return _program(_gradient_name(forward, wrt, "_given"), {"dy": "array", **kinds}, results)


def _gradient_name(forward: RowProgram, wrt: Sequence[str], suffix: str) -> str:
    return f"{forward.name}_grad_{'_'.join(wrt)}{suffix}"


def _opened(
    seeds: Sequence[Node], values: Sequence[Node], variables: _Variables, kinds: Kinds
) -> tuple[list[Node], list[Node], dict[Node, Node]]:
    """What an activation is applied to, with its gradient, beside the activation's value.

    Where y = f(z), and all lanes and channels enter through z, then dz = dy·f'(z) is one value that all
    gradients share. Only a number may enter through f too. The last result maps stand-ins of z to it.
    """
    all_seeds, all_values, inner = [], [], {}
    for index, (seed, value) in enumerate(zip(seeds, values, strict=True)):
        z = _only_way_in(value, variables, kinds)
        if z is value:
            all_seeds.append(seed)
            all_values.append(value)
            continue
        whole = operand(f"_inner{index}", True)
        inner[whole] = z
        outer = substitute(value, {z: whole})
        (slope,) = reuse_products(derivative(outer, whole))
        all_seeds += [build("mul", slope, seed), seed]
        all_values += [z, outer]
    return all_seeds, all_values, inner


def _only_way_in(value: Node, variables: _Variables, kinds: Kinds) -> Node:
    """The lowest node through which everything that varies enters `value`; that itself if none."""
    varying = {_operand(name, kinds) for name, kind in kinds.items() if kind != "number"}
    varying |= set(variables.stand_ins.values())
    for node in walk(value):
        if node.args and node.is_array:
            rest = substitute(value, {node: operand("_z", True)})
            if not varying & set(walk(rest)):
                return node
    return value


def _as_result(name: str, value: Node, kinds: Kinds, incoming: Sequence[str]) -> RowResult:
    """The gradient of an operand: summed over a row for a number."""
    kind = {"array": FULL, "channel": PER_CHANNEL, "number": PER_ROW}[kinds[name]]
    total = build("reduce_sum", value) if kind == PER_ROW else value
    return RowResult(_free(f"d{name}", kinds, incoming), total, kind, name)


def _operand(name: str, kinds: Kinds) -> Node:
    return operand(name, kinds[name] in ("array", "channel"))


def _program(name: str, kinds: Kinds, results: Sequence[RowResult]) -> RowProgram:
    """A program of those operands that it reads."""
    read = {node.name for node in walk(*(result.value for result in results))}

    def of(kind: str) -> tuple[str, ...]:
        return tuple(own for own, its in kinds.items() if its == kind and own in read)

    return RowProgram(name, of("array"), of("channel"), of("row"), of("number"), tuple(results))


@dataclass(frozen=True)
class _Variables:
    """The reductions of a program, and its `rstd`, each with an operand that stands for it."""

    stand_ins: dict[Node, Node]

    @classmethod
    def of(cls, program: RowProgram) -> _Variables:
        roots = [result.value for result in program.results]
        nodes = [node for node in walk(*roots) if node.op in REDUCTIONS or node.op == "rstd"]
        # A variance whose only use is inside of an rstd has no slope of its own.
        hidden = {node.args[0] for node in nodes if node.op == "rstd"}
        cut = {node: operand("_", False) for node in nodes if node not in hidden}
        tops = [*roots, *(arg for node in nodes for arg in node.args if arg not in hidden)]
        seen = {node for top in tops for node in walk(substitute(top, cut))}
        own = [node for node in nodes if node not in hidden or node in seen]
        return cls({node: operand(f"_variable{index}", False) for index, node in enumerate(own)})

    def cut(self, value: Node) -> Node:
        """`value` with a stand-in for every variable."""
        return substitute(value, self.stand_ins)

    def whole(self, value: Node) -> Node:
        """`value` with the variables again."""
        back = {stand_in: node for node, stand_in in self.stand_ins.items()}
        return substitute(value, back)

    def slope(self, variable: Node) -> tuple[Node, Node, Node]:
        """The reduced value, and what a change of a lane of it changes the variable by.

        That is a product of lanes and a number. For an rstd the lanes are the normalised value, which is
        of the size of 1 whatever the size of the operand is.
        """
        value = variable.args[0]
        lanes = value.args[0] if variable.op == "rstd" else value
        kind = value.op if variable.op == "rstd" else variable.op
        per_lane = build("reciprocal", ROW_LENGTH)
        if kind == "reduce_sum":
            return lanes, const(1.0), const(1.0)
        if kind == "reduce_mean":
            return lanes, const(1.0), per_lane
        shift = build("sub", lanes, build("reduce_mean", lanes)) if "variance" in kind else lanes
        if variable.op != "rstd":
            return lanes, shift, build("mul", per_lane, const(2.0))
        normalised = build("mul", shift, variable)
        return lanes, normalised, negated(build("mul", build("mul", variable, variable), per_lane))


def _row_gradients(
    variables: _Variables, seeds: Sequence[Node], values: Sequence[Node]
) -> dict[Node, Node]:
    """The gradient of each variable, one number a row, in terms of the stand-ins."""
    gradients: dict[Node, Node] = {}
    for variable in reversed(variables.stand_ins):
        lanes = _gradient(variables, seeds, values, gradients, variables.stand_ins[variable])
        gradients[variable] = build("reduce_sum", lanes)
    return gradients


def _gradient(
    variables: _Variables,
    seeds: Sequence[Node],
    values: Sequence[Node],
    gradients: Mapping[Node, Node],
    own: Node,
) -> Node:
    """The gradient of the operand, or stand-in, `own`, in a lane."""
    terms = [
        _parts(build("mul", slope, seed))
        for seed, value in zip(seeds, values, strict=True)
        if (slope := derivative(value, own)) is not const(0.0)
    ]
    for variable, gradient in gradients.items():
        lanes, weight, number = variables.slope(variable)
        slope = derivative(variables.cut(lanes), own)
        if slope is const(0.0) or gradient is const(0.0):
            continue
        inner, factors = _parts(slope)
        both = build("mul", variables.cut(weight), inner)
        terms.append((both, [*factors, *_factors(variables.cut(number)), *_factors(gradient)]))
    terms += [
        (const(1.0), [_slope_by_eps(variables, variable, own), gradient])
        for variable, gradient in gradients.items()
        if variable.op == "rstd" and own in walk(variable.args[1])
    ]
    return _sum_of(terms)


#: Lanes, and the numbers that they are multiplied with.
_Term = tuple[Node, list[Node]]


def _sum_of(terms: Sequence[_Term]) -> Node:
    """The sum of products, with the numbers that all of them are multiplied with taken out.

    So what cancels, as g - mean(g) does, cancels before it is scaled. Terms without numbers come last.
    """
    scaled = [(lanes, list(factors)) for lanes, factors in terms if factors]
    common = [
        own
        for own in dict.fromkeys(scaled[0][1] if scaled else ())
        if all(own in f for _, f in scaled)
    ]
    if len(scaled) < 2:
        common = []
    total = const(0.0)
    for lanes, factors in scaled:
        for own in common:
            factors.remove(own)
        total = build("add", total, build("mul", lanes, _product(factors)))
    total = build("mul", total, _product(common))
    for lanes, factors in terms:
        if not factors:
            total = build("add", total, lanes)
    return total


def _parts(term: Node) -> _Term:
    """The lanes of a product, 1 if it has none, and its numbers one by one."""
    if not term.is_array:
        return const(1.0), _factors(term)
    lanes, number = split_factors(term)
    return lanes, [] if number is None else _factors(number)


def _factors(number: Node) -> list[Node]:
    if number is const(1.0):
        return []
    if number.op != "mul":
        return [number]
    return [own for arg in number.args for own in _factors(arg)]


def _product(factors: Sequence[Node]) -> Node:
    product = const(1.0)
    for own in factors:
        product = build("mul", product, own)
    return product


def _slope_by_eps(variables: _Variables, variable: Node, own: Node) -> Node:
    """What a lane's share of `own` in the second operand of an rstd changes it by."""
    rstd = variables.stand_ins[variable]
    cubed = build("mul", build("mul", rstd, rstd), rstd)
    slope = build("mul", derivative(variable.args[1], own), const(-0.5))
    return build("div", build("mul", cubed, slope), ROW_LENGTH)


def substitute(value: Node, mapping: Mapping[Node, Node]) -> Node:
    """`value` with other nodes in the place of some."""
    known: dict[Node, Node] = dict(mapping)

    def visit(node: Node) -> Node:
        if node not in known:
            args = [visit(arg) for arg in node.args]
            same = all(new is old for new, old in zip(args, node.args, strict=True))
            known[node] = node if same else build(node.op, *args)
        return known[node]

    return visit(value)
