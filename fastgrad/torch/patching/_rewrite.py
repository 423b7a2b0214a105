"""A method rewritten so that modules which follow each other meet in one call of `_fused`.

Only what keeps the meaning, whatever the modules are, is rewritten:

- ``h = self.a(x); h = self.b(h)`` and ``self.b(self.a(x))`` become ``chain(x, self.a, self.b)``;
- ``h = a + b; r = h; h = self.n(h)`` becomes ``h, r = add_norm(self.n, a, b)``, and ``self.n(a + b)``
  its first result; ``h = a + b; h = h + self.f(self.n(h))`` likewise;
- ``self.a(self.n(h) + r)`` becomes ``norm_add(self.a, self.n, h, r)``;
- ``self.f(g) * u`` becomes ``gated(act=self.f, gate=g, up=u)``;
- ``F.relu(x)`` becomes ``chain(x, F.relu)``, with other arguments ``call(F.gelu, x, …)``;
- ``u, g = x.chunk(2, dim=d); … u * self.f(g)`` becomes ``packed(self.f, x, d, "last")``.

Lines keep their numbers: a traceback points into the original source.
"""

from __future__ import annotations

import ast
import copy
import functools
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CellType, FunctionType
from typing import Any

from ._roles import COUNTERPARTS, activation_of
from ._source import UnreadableError, code_of, innermost, parse, resolve
from ._syntax import (
    blocks_in,
    branches_of,
    copied_name,
    first_call,
    is_copy,
    is_name,
    is_none_test,
    is_straight,
    name_of,
    sum_of,
    value_of,
)

__all__ = ["Rewritten", "Site", "rewrite"]

_NORMED = "fastgrad_normed"
#: Where a rewritten method finds `_fused`: on `self`, so that no module's globals are touched.
HELPERS = "_fastgrad_fused"


@dataclass(frozen=True)
class Site:
    """A place where modules meet: "chain", "add_norm", "norm_add", "gated" or "call".

    A step is the names from `self` to a module, or a function.
    """

    kind: str
    steps: tuple[Any, ...]


@dataclass
class Rewritten:
    """A method and the places that were rewritten in it."""

    function: Any
    sites: list[Site] = field(default_factory=list)


@functools.cache
def rewrite(method: Any) -> Rewritten | None:
    """The method with its sites rewritten, or None where it has none.

    Raises
    ------
    UnreadableError
        If its source cannot be had, or its decorators cannot be put around another function.
    """
    function = innermost(method)
    if not isinstance(function, FunctionType):
        raise UnreadableError("its forward is not a Python function")
    node = copy.deepcopy(parse(function))
    rewriter = _Rewriter(function, node)
    rewriter.apply()
    if not rewriter.sites:
        return None
    ast.fix_missing_locations(node)
    return Rewritten(_rewrap(method, function, _compiled(node, function)), rewriter.sites)


def _compiled(node: ast.FunctionDef, old: FunctionType) -> FunctionType:
    """A function of the new code with everything else of the old one."""
    code = code_of(node, old)
    cells = dict(zip(old.__code__.co_freevars, old.__closure__ or ()))
    closure = tuple(cells[name] for name in code.co_freevars)
    return _like(old, FunctionType(code, old.__globals__, old.__name__, old.__defaults__, closure))


def _like(old: FunctionType, new: FunctionType) -> FunctionType:
    new.__kwdefaults__, new.__annotations__ = old.__kwdefaults__, old.__annotations__
    new.__qualname__, new.__module__, new.__doc__ = old.__qualname__, old.__module__, old.__doc__
    new.__dict__.update(old.__dict__)
    return new


def _rewrap(method: Any, old: FunctionType, new: FunctionType) -> Any:
    """The decorators of `method` around `new`: copies of them, whose cell of `old` holds `new`."""
    if method is old:
        return new
    wrapped = method.__wrapped__
    inner = _rewrap(wrapped, old, new)
    if not isinstance(method, FunctionType) or not any(
        _holds(cell, wrapped) for cell in method.__closure__ or ()
    ):
        raise UnreadableError("its forward is decorated in a way that cannot be repeated")
    closure = tuple(
        CellType(inner) if _holds(cell, wrapped) else cell for cell in method.__closure__ or ()
    )
    copied = FunctionType(
        method.__code__, method.__globals__, method.__name__, method.__defaults__, closure
    )
    wrapper: Any = _like(method, copied)
    wrapper.__wrapped__ = inner
    return wrapper


def _holds(cell: CellType, wrapped: Any) -> bool:
    try:
        return cell.cell_contents is wrapped
    except ValueError:  # an empty cell
        return False


class _Rewriter:
    """Finds and rewrites the sites of one function."""

    def __init__(self, function: FunctionType, node: ast.FunctionDef):
        self.function, self.node = function, node
        self.me = node.args.args[0].arg if node.args.args else None
        self.sites: list[Site] = []

    def apply(self) -> None:
        """Rewrite the body."""
        if self.me is not None:
            self._block(self.node.body)
            self.sites = list(dict.fromkeys([*self.sites, *self._chains()]))

    def _chains(self) -> list[Site]:
        """The chains, which have grown until now."""
        return [
            Site("chain", tuple(self._path(s) or resolve(s, self.function) for s in node.args[1:]))
            for node in ast.walk(self.node)
            if isinstance(node, ast.Call) and getattr(node, "fastgrad_chain", False)
        ]

    # --- Statements

    def _block(self, body: list[ast.stmt]) -> None:
        for rule in (self._hoist, self._sink):
            place = 0
            while place < len(body):
                place += rule(body, place)
        for place in range(len(body) - 1):
            self._merge_halves(body, place)
        for place in reversed(range(len(body) - 1)):
            self._name_norm(body, place)
        for statement in body:
            for inner in blocks_in(statement):
                self._block(inner)
            self._expressions(statement)
        place = 0
        while place < len(body):
            if not self._merge_sum(body, place) and not self._merge_chain(body, place):
                place += 1

    def _hoist(self, body: list[ast.stmt], place: int) -> int:
        """``h = a + b; if given is None: …; [r = h;] h = self.n(h)``: the sum and its norm to both ways."""
        if len(body) < place + 3:
            return 1
        total, choice = body[place : place + 2]
        if sum_of(total) is None or not isinstance(choice, ast.If) or choice.orelse:
            return 1
        if not is_none_test(choice.test, name_of(total)):
            return 1
        tail = body[place + 2 : place + 4]
        if not is_copy(tail[0]):
            tail = tail[:1]
        calls = tail[-1]
        if not self._is_self_call_of(calls, name_of(total)):
            return 1
        if len(tail) == 2 and copied_name(tail[0]) != name_of(total):
            return 1
        choice.orelse = [copy.deepcopy(step) for step in (total, *tail)]
        choice.body = [total, *choice.body, *tail]
        del body[place + 2 : place + 2 + len(tail)]
        del body[place]
        return 1

    def _sink(self, body: list[ast.stmt], place: int) -> int:
        """A call that goes on with what some branch ends with goes into every branch."""
        if len(body) < place + 2 or not isinstance(body[place], ast.If):
            return 1
        choice, after = body[place], body[place + 1]
        assert isinstance(choice, ast.If)
        name = name_of(after)
        if name is None or not self._is_self_call_of(after, name):
            return 1
        ends = [branch[-1] for branch in branches_of(choice) if branch]
        if not any(name_of(end) == name and self._self_call(value_of(end)) for end in ends):
            return 1
        for branch in branches_of(choice):
            branch.append(copy.deepcopy(after))
        del body[place + 1]
        return 1

    def _name_norm(self, body: list[ast.stmt], place: int) -> None:
        """``h = a + b; h = h + self.f(self.n(h))``: the norm gets a name, if it is the first call."""
        total, after = body[place : place + 2]
        name, value = name_of(total), value_of(after)
        if sum_of(total) is None or name is None or value is None or not is_straight(value):
            return
        first = first_call(value)
        if first is None or first is value or not self._self_call(first):
            return
        if not is_name(first.args[0], name):
            return
        norm = ast.Assign([ast.Name(_NORMED, ast.Store())], copy.deepcopy(first))
        named = ast.copy_location(ast.Name(_NORMED, ast.Load()), first)
        assert isinstance(after, (ast.Assign, ast.Return))
        after.value = _Swap(first, named).visit(value)
        body.insert(place + 1, ast.copy_location(norm, after))

    def _merge_halves(self, body: list[ast.stmt], place: int) -> None:
        """``u, g = x.chunk(2, dim=d)``, then a product of one and an activation of the other."""
        halves = self._chunk(body[place])
        if halves is None:
            return
        (first, last), x, dim = halves
        after = body[place + 1]
        if not isinstance(after, (ast.Assign, ast.Return)):
            return
        own = [node for node in ast.walk(after) if isinstance(node, ast.Name)]
        for name in (first, last):
            loads = [node for node in own if node.id == name and isinstance(node.ctx, ast.Load)]
            if len(loads) != 1 or not self._is_dead_after(name, after):
                return
        finder = _Products(self, first, last, x, dim)
        body[place + 1] = finder.visit(after)
        if finder.found:
            body[place] = ast.copy_location(ast.Pass(), body[place])

    def _is_dead_after(self, name: str, statement: ast.stmt) -> bool:
        if name in self.function.__code__.co_cellvars:
            return False
        if isinstance(statement, ast.Return) or name_of(statement) == name:
            return True
        every = [n for n in ast.walk(self.node) if isinstance(n, ast.Name) and n.id == name]
        return sum(isinstance(node.ctx, ast.Load) for node in every) == 1

    def _merge_sum(self, body: list[ast.stmt], place: int) -> bool:
        """``h = a + b; [r = h;] y = self.n(h)``."""
        total = body[place]
        operands, name = sum_of(total), name_of(total)
        if operands is None or name is None:
            return False
        end = place + 1
        names = [name]
        while end < len(body) and is_copy(body[end]) and copied_name(body[end]) == name:
            names.append(name_of(body[end]) or "")
            end += 1
        if end >= len(body) or not self._is_self_call_of(body[end], name):
            return False
        calls = value_of(body[end])
        assert isinstance(calls, ast.Call)
        result = name_of(body[end])
        if result is None or result in names[1:]:
            return False
        self.sites.append(Site("add_norm", (self._path(calls.func),)))
        fused = self._helper("add_norm", [calls.func, *operands], body[end])
        # The norm's result first, or after the sum where that has the same name.
        kept = [own for own in names if own != result]
        if not kept:
            value: ast.expr = ast.Subscript(fused, ast.Constant(0), ast.Load())
            target: ast.expr = ast.Name(result, ast.Store())
        else:
            value = fused
            pair: list[ast.expr] = [ast.Name(own, ast.Store()) for own in (result, kept[0])]
            target = ast.Tuple(pair, ast.Store())
        merged: list[ast.stmt] = [ast.copy_location(ast.Assign([target], value), body[end])]
        for other in kept[1:]:
            again = ast.Assign([ast.Name(other, ast.Store())], ast.Name(kept[0], ast.Load()))
            merged.append(ast.copy_location(again, body[end]))
        body[place : end + 1] = merged
        return True

    def _merge_chain(self, body: list[ast.stmt], place: int) -> bool:
        """``h = self.a(x); h = self.b(h)``."""
        if len(body) < place + 2:
            return False
        first, after = body[place : place + 2]
        name = name_of(first)
        start, end = self._unchained(value_of(first)), self._unchained(value_of(after))
        if name is None or start is None or end is None or not is_name(end[0], name):
            return False
        if name in self.function.__code__.co_cellvars:
            return False
        if name_of(after) != name and not isinstance(after, ast.Return):
            return False
        x, steps = start[0], [*start[1], *end[1]]
        value = self._chain(x, steps, after)
        assert isinstance(after, (ast.Assign, ast.Return))
        after.value = value
        del body[place]
        return True

    # --- Expressions

    def _expressions(self, statement: ast.stmt) -> None:
        nested = [step for block in blocks_in(statement) for step in block]
        _Expressions(self, nested).visit(statement)

    def _chain(self, x: ast.expr, steps: list[ast.expr], where: ast.AST) -> ast.expr:
        return self._helper("chain", [x, *steps], where)

    def _unchained(self, value: ast.expr | None) -> tuple[ast.expr, list[ast.expr]] | None:
        """What goes into a call, or a chain, and the steps it takes."""
        if isinstance(value, ast.Call) and getattr(value, "fastgrad_chain", False):
            return value.args[0], value.args[1:]
        if value is not None and self._self_call(value):
            assert isinstance(value, ast.Call)
            return value.args[0], [value.func]
        return None

    def _helper(
        self,
        name: str,
        arguments: list[ast.expr],
        where: ast.AST,
        keywords: list[ast.keyword] | None = None,
    ) -> ast.Call:
        assert self.me is not None
        helpers = ast.Attribute(ast.Name(self.me, ast.Load()), HELPERS, ast.Load())
        call = ast.Call(ast.Attribute(helpers, name, ast.Load()), arguments, keywords or [])
        call.fastgrad_chain = name == "chain"  # type: ignore[attr-defined]
        for node in ast.walk(call):
            if not hasattr(node, "lineno"):
                ast.copy_location(node, where)
        return call

    def _self_call(self, value: ast.expr | None) -> bool:
        """Whether it is ``self.name(x)``, with one argument."""
        return (
            isinstance(value, ast.Call)
            and len(value.args) == 1
            and not value.keywords
            and not isinstance(value.args[0], ast.Starred)
            and self._path(value.func) is not None
        )

    def _is_self_call_of(self, statement: ast.stmt, name: str | None) -> bool:
        value = value_of(statement)
        if name is None or not self._self_call(value):
            return False
        assert isinstance(value, ast.Call)
        return is_name(value.args[0], name)

    def _path(self, node: ast.expr) -> Any:
        """The names from `self` to what an expression is, or None."""
        if not isinstance(node, ast.Attribute):
            return None
        if isinstance(node.value, ast.Name):
            return (node.attr,) if node.value.id == self.me else None
        inner = self._path(node.value)
        return None if inner is None else (*inner, node.attr)

    def _callee(self, node: ast.expr) -> Any:
        """The path of ``self.name``, or the function that a global name is."""
        path = self._path(node)
        if path is not None:
            return path
        found = resolve(node, self.function)
        return found if activation_of(found) is not None else None

    def _chunk(self, statement: ast.stmt) -> tuple[tuple[str, str], ast.expr, ast.expr] | None:
        """The names, the array and the axis of ``u, g = x.chunk(2, dim=d)``."""
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        target, value = statement.targets[0], statement.value
        if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
            return None
        if not all(isinstance(own, ast.Name) for own in target.elts):
            return None
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            return None
        if value.func.attr != "chunk" or self._path(value.func) is not None:
            return None
        if isinstance(value.func.value, ast.Name) and value.func.value.id == "torch":
            x, arguments = value.args[:1], value.args[1:]
        else:
            x, arguments = [value.func.value], value.args
        dims = [own.value for own in value.keywords if own.arg == "dim"] or arguments[1:]
        if len(x) != 1 or len(dims) != 1 or len(value.keywords) + len(arguments) != 2:
            return None
        if not arguments or not isinstance(arguments[0], ast.Constant) or arguments[0].value != 2:
            return None
        first, last = (own.id for own in target.elts if isinstance(own, ast.Name))
        return (first, last), x[0], dims[0]


class _Swap(ast.NodeTransformer):
    """Puts one expression in the place of another."""

    def __init__(self, old: ast.expr, new: ast.expr):
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else super().visit(node)


class _Products(ast.NodeTransformer):
    """Rewrites the product of one half and an activation of the other."""

    def __init__(self, rewriter: _Rewriter, first: str, last: str, x: ast.expr, dim: ast.expr):
        self.rewriter, self.halves, self.x, self.dim = rewriter, (first, last), x, dim
        self.found = False

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        for call, other in ((node.left, node.right), (node.right, node.left)):
            if not isinstance(node.op, ast.Mult) or not isinstance(other, ast.Name):
                continue
            if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
                continue
            act, gate = self.rewriter._callee(call.func), call.args[0]
            if act is None or not isinstance(gate, ast.Name):
                continue
            if {gate.id, other.id} != set(self.halves):
                continue
            self.found = True
            self.rewriter.sites.append(Site("gated", (act,)))
            which = ast.Constant("first" if gate.id == self.halves[0] else "last")
            return self.rewriter._helper("packed", [call.func, self.x, self.dim, which], node)
        return self.generic_visit(node)


class _Expressions(ast.NodeTransformer):
    """Rewrites within the expressions of one statement, from the inside out."""

    def __init__(self, rewriter: _Rewriter, skipped: list[ast.stmt]):
        self.rewriter, self.skipped = rewriter, skipped

    def visit(self, node: ast.AST) -> Any:
        if any(node is statement for statement in self.skipped):
            return node
        return super().visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        rewriter = self.rewriter
        function = resolve(node.func, rewriter.function)
        if _is_replaceable(function) and node.args:
            return self._function(node, function)
        if not rewriter._self_call(node):
            return node
        x = node.args[0]
        inner = rewriter._unchained(x)
        if inner is not None:
            return rewriter._chain(inner[0], [*inner[1], node.func], node)
        if isinstance(x, ast.BinOp) and isinstance(x.op, ast.Add):
            found = self._norm_add(node.func, x, node)
            if found is not None:
                return found
            rewriter.sites.append(Site("add_norm", (rewriter._path(node.func),)))
            fused = rewriter._helper("add_norm", [node.func, x.left, x.right], node)
            return ast.copy_location(ast.Subscript(fused, ast.Constant(0), ast.Load()), node)
        return node

    def _function(self, node: ast.Call, function: Any) -> ast.expr:
        """A function of torch, the next step of a chain if it has one argument."""
        rewriter, x = self.rewriter, node.args[0]
        if any(isinstance(x, ast.Starred) for x in node.args):
            return node
        if any(own.arg in (None, "inplace") for own in node.keywords):
            return node
        if len(node.args) > 1 or node.keywords:
            rewriter.sites.append(Site("call", (function,)))
            return rewriter._helper("call", [node.func, *node.args], node, node.keywords)
        if isinstance(x, ast.BinOp) and isinstance(x.op, ast.Add):
            found = self._norm_add(node.func, x, node)
            if found is not None:
                return found
        start, steps = rewriter._unchained(x) or (x, [])
        return rewriter._chain(start, [*steps, node.func], node)

    def _norm_add(self, act: ast.expr, total: ast.BinOp, node: ast.Call) -> ast.expr | None:
        """``act(norm(h) + r)``, where `r` is a variable: it may be read before the norm is called."""
        rewriter = self.rewriter
        for called, other in ((total.left, total.right), (total.right, total.left)):
            inner = rewriter._unchained(called)
            if inner is None or not isinstance(other, ast.Name):
                continue
            start, (*before, norm) = inner
            if rewriter._path(norm) is None:
                continue
            h = rewriter._chain(start, before, node) if before else start
            site = (self._step_of(act), rewriter._path(norm))
            rewriter.sites.append(Site("norm_add", site))
            return rewriter._helper("norm_add", [act, norm, h, other], node)
        return None

    def _step_of(self, act: ast.expr) -> Any:
        return self.rewriter._path(act) or resolve(act, self.rewriter.function)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return node

    def visit_Try(self, node: ast.Try) -> Any:
        return node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        opens = [isinstance(node.op, ast.Mult) and self._opens(s) for s in (node.left, node.right)]
        if all(opens) and any(self._is_function(side) for side in (node.left, node.right)):
            opens = [self._is_function(node.left), not self._is_function(node.left)]
        elif all(opens):
            # Which of the two is the activation is known when it runs.
            assert isinstance(node.left, ast.Call)
            test = self.rewriter._helper("is_activation", [copy.deepcopy(node.left.func)], node)
            left, right = self._gated(copy.deepcopy(node), 0), self._gated(node, 1)
            return ast.copy_location(ast.IfExp(test, left, right), node)
        if any(opens):
            return self._gated(node, opens.index(True))
        return self.generic_visit(node)

    def _opens(self, side: ast.expr) -> bool:
        """Whether it is a call that may be an activation."""
        if not isinstance(side, ast.Call) or len(side.args) != 1 or side.keywords:
            return False
        one = not isinstance(side.args[0], ast.Starred)
        return one and self.rewriter._callee(side.func) is not None

    def _is_function(self, side: ast.expr) -> bool:
        return isinstance(side, ast.Call) and self.rewriter._path(side.func) is None

    def _gated(self, product: ast.BinOp, which: int) -> ast.expr:
        """The product, its arguments in the order in which they were evaluated."""
        sides = [product.left, product.right]
        call = sides.pop(which)
        assert isinstance(call, ast.Call)
        self.rewriter.sites.append(Site("gated", (self.rewriter._callee(call.func),)))
        gate = [
            ast.keyword("act", call.func),
            ast.keyword("gate", self.visit(call.args[0])),
        ]
        up = [ast.keyword("up", self.visit(sides[0]))]
        keywords = [*gate, *up] if which == 0 else [*up, *gate]
        return self.rewriter._helper("gated", [], product, keywords)


def _is_replaceable(function: Any) -> bool:
    return isinstance(function, (FunctionType, BuiltinFunctionType)) and function in COUNTERPARTS
