"""What a function says, independent of how it names things.

Two functions have one `Text` if they do the same thing by the same torch functions: names of
variables and of attributes of `self`, annotations, decorators and docstrings make no difference.
So sixty copies of one RMSNorm are one text, and a copy with ``1 + weight`` is another.
"""

from __future__ import annotations

import ast
import builtins
import copy
import dis
import functools
import inspect
import textwrap
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

__all__ = ["Text", "UnreadableError", "code_of", "innermost", "parse", "read", "resolve"]


class UnreadableError(Exception):
    """Why a function's source cannot be had."""


@dataclass(frozen=True)
class Text:
    """`key` is equal for equal texts; `attributes` are those of `self`, in order of appearance."""

    key: str
    attributes: tuple[str, ...]


@functools.cache
def read(function: FunctionType) -> Text | None:
    """The text of a function, or None where there is no source to read."""
    try:
        node = copy.deepcopy(parse(function))
    except UnreadableError:
        return None
    naming = _Naming(function, node.args)
    node = naming.visit(node)
    return Text(ast.dump(node, annotate_fields=False), tuple(naming.attributes))


@functools.cache
def parse(function: FunctionType) -> ast.FunctionDef:
    """The syntax tree of what runs, with the line numbers of its file; not to be changed.

    Raises
    ------
    UnreadableError
        If there is no source, or what it says is not what runs.
    """
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError, IndentationError, SyntaxError) as error:
        raise UnreadableError("its source cannot be read") from error
    source = "".join(lines)
    if source != textwrap.dedent(source):
        # A class around it instead of dedenting: columns stay, and text within strings.
        source, first = "class _:\n" + source, first - 1
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise UnreadableError("its source cannot be read") from error
    ast.increment_lineno(tree, first - 1)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    if not found or found[0].name != function.__code__.co_name:
        raise UnreadableError("its source cannot be read")
    if any(_is_private(name) for name in function.__code__.co_names):
        raise UnreadableError("its forward uses private names of its class")
    if _gist(code_of(found[0], function)) != _gist(function.__code__):
        raise UnreadableError("its source is not what runs")
    return found[0]


def code_of(node: ast.FunctionDef, function: FunctionType) -> CodeType:
    """`node` compiled in the place of `function`: for its file, globals and enclosing names."""
    node = copy.deepcopy(node)
    node.decorator_list, node.returns = [], None
    node.args.defaults = [ast.copy_location(ast.Constant(None), d) for d in node.args.defaults]
    node.args.kw_defaults = [
        d and ast.copy_location(ast.Constant(None), d) for d in node.args.kw_defaults
    ]
    for argument in _arguments(node.args):
        argument.annotation = None
    cells = function.__code__.co_freevars
    outer = ast.parse(f"def outer({', '.join(cells)}):\n    pass").body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.body = [node]
    module = ast.fix_missing_locations(ast.Module([outer], []))
    code = compile(module, function.__code__.co_filename, "exec", dont_inherit=True)
    for name in ("outer", node.name):
        code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
    return code


def innermost(function: Any) -> Any:
    """What the decorators that leave `__wrapped__` were put around."""
    return inspect.unwrap(function)


def resolve(node: ast.expr, function: FunctionType) -> Any:
    """The object that a dotted name of globals stands for, or None."""
    if isinstance(node, ast.Attribute):
        owner = resolve(node.value, function)
        # Of modules alone: nothing that a look may change.
        return getattr(owner, node.attr, None) if inspect.ismodule(owner) else None
    if not isinstance(node, ast.Name) or _is_local(node.id, function):
        return None
    return function.__globals__.get(node.id, getattr(builtins, node.id, None))


def _is_private(name: str) -> bool:
    """Whether it is as ``self.__name`` is compiled within a class."""
    return name.startswith("_") and "__" in name[1:] and not name.endswith("__")


def _gist(code: CodeType) -> tuple:
    """What two compilations share; how a method is looked up depends on the module's imports."""
    constants = [repr(c) for c in code.co_consts if not isinstance(c, CodeType)]
    operations = [
        (step.opname, step.arg)
        for step in dis.get_instructions(code)
        if step.opname.startswith(("BINARY_", "COMPARE_", "UNARY_"))
    ]
    return code.co_names, code.co_varnames, code.co_freevars, constants, operations


def _is_local(name: str, function: FunctionType) -> bool:
    code = function.__code__
    return name in code.co_varnames or name in code.co_cellvars or name in code.co_freevars


def _arguments(args: ast.arguments) -> list[ast.arg]:
    every = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
    return [argument for argument in every if argument is not None]


class _Naming(ast.NodeTransformer):
    """Numbers variables and attributes of `self`, names global objects by where they come from."""

    def __init__(self, function: FunctionType, args: ast.arguments):
        self.function = function
        self.variables: dict[str, str] = {}
        self.attributes: list[str] = []
        self.me = args.args[0].arg if args.args else None

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.name, node.decorator_list, node.returns = "_", [], None
        if hasattr(node, "type_params"):
            node.type_params = []
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> Any:
        # Keywords that a caller may use are told apart by position: modules are called so.
        return ast.arg(self._variable(node.arg))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return None
        return self.visit(ast.Assign([node.target], node.value))

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id == self.me:
            if node.attr not in self.attributes:
                self.attributes.append(node.attr)
            return ast.Attribute(
                self.visit(node.value), f"a{self.attributes.index(node.attr)}", node.ctx
            )
        found = resolve(node, self.function)
        if found is not None:
            return ast.Name(_origin(found), ast.Load())
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        if _is_local(node.id, self.function):
            return ast.Name(self._variable(node.id), node.ctx)
        found = resolve(node, self.function)
        return ast.Name(_origin(found), node.ctx) if found is not None else node

    def _variable(self, name: str) -> str:
        return self.variables.setdefault(name, f"v{len(self.variables)}")


def _origin(found: Any) -> str:
    if inspect.ismodule(found):
        return found.__name__
    if isinstance(found, (bool, int, float, str)):
        return repr(found)
    module, name = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    if name is None:
        # A dtype and such: torch's are one object each, and say their name.
        return repr(found)
    return f"{module}.{name}"
