"""Questions about statements and expressions of a forward."""

from __future__ import annotations

import ast

__all__ = [
    "blocks_in",
    "branches_of",
    "copied_name",
    "first_call",
    "is_copy",
    "is_name",
    "is_none_test",
    "is_straight",
    "name_of",
    "sum_of",
    "value_of",
]


def blocks_in(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The statements inside of one; not of `try`, whose handlers may read what was assigned."""
    if not isinstance(statement, (ast.If, ast.For, ast.While, ast.With)):
        return []
    return [block for name in ("body", "orelse") if (block := getattr(statement, name, []))]


def branches_of(choice: ast.If) -> list[list[ast.stmt]]:
    """The bodies of if, elif and else, of which there is one at last."""
    last = choice.orelse
    if len(last) == 1 and isinstance(last[0], ast.If):
        return [choice.body, *branches_of(last[0])]
    return [choice.body, last]


def value_of(statement: ast.stmt) -> ast.expr | None:
    return statement.value if isinstance(statement, (ast.Assign, ast.Return)) else None


def name_of(statement: ast.stmt) -> str | None:
    """The one name that a statement assigns."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    return target.id if isinstance(target, ast.Name) else None


def sum_of(statement: ast.stmt) -> list[ast.expr] | None:
    value = value_of(statement)
    if name_of(statement) is None or not isinstance(value, ast.BinOp):
        return None
    return [value.left, value.right] if isinstance(value.op, ast.Add) else None


def is_straight(value: ast.expr) -> bool:
    """Whether all of it is evaluated, once and in order."""
    branches = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.NamedExpr, ast.comprehension, ast.Compare)
    return not any(isinstance(node, (*branches, ast.Await, ast.Yield)) for node in ast.walk(value))


def first_call(value: ast.AST) -> ast.Call | None:
    """The call that returns first."""
    for child in ast.iter_child_nodes(value):
        found = first_call(child)
        if found is not None:
            return found
    return value if isinstance(value, ast.Call) else None


def is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def is_copy(statement: ast.stmt) -> bool:
    return name_of(statement) is not None and isinstance(value_of(statement), ast.Name)


def copied_name(statement: ast.stmt) -> str | None:
    value = value_of(statement)
    return value.id if isinstance(value, ast.Name) else None


def is_none_test(test: ast.expr, name: str | None) -> bool:
    """Whether it asks of another variable than `name` if it is None."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id != name
        and len(test.ops) == 1
        and isinstance(test.ops[0], (ast.Is, ast.IsNot))
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value is None
    )
