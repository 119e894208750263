"""Mutants of a module: its source with one small thing changed, each place once."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mutant:
    """One change of a module."""

    name: str
    """Where it is and what it does: `function: before -> after`, counted if it comes twice."""
    source: str
    """The whole module with the change."""


def mutants(source: str) -> Iterator[Mutant]:
    """Yield the mutants of a module, in the order of its text."""
    tree = ast.parse(source)
    seen: dict[str, int] = {}
    for number, (node, where) in enumerate(_places(tree, "")):
        for index, change in enumerate(_changes(node)):
            # A copy has the same nodes in the same order.
            mutated = copy.deepcopy(tree)
            there = next(n for at, (n, _) in enumerate(_places(mutated, "")) if at == number)
            before = ast.unparse(there)
            list(_changes(there))[index].apply()
            what = f"{where or 'module'}: {before} -> {ast.unparse(there)}"
            del change
            seen[what] = seen.get(what, 0) + 1
            name = what if seen[what] == 1 else f"{what} ({seen[what]})"
            yield Mutant(name, ast.unparse(ast.fix_missing_locations(mutated)))


@dataclass(frozen=True)
class _Change:
    node: ast.AST
    field: str
    value: object

    def apply(self) -> None:
        setattr(self.node, self.field, self.value)


def _places(node: ast.AST, where: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield what may be changed: no annotation, no docstring, nothing that only types read."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        if node.targets[0].id == "__all__":
            return
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.Assert):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        where = f"{where}.{node.name}".lstrip(".")
    yield node, where
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases", "keywords") and not (
            field == "keywords" and isinstance(node, ast.Call)
        ):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _places(child, where)


def _changes(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.Compare(ops=[op, *more]):
            if type(op) in _SWAPPED:
                yield _Change(node, "ops", [_SWAPPED[type(op)](), *more])
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op):
            if type(op) in _SWAPPED:
                yield _Change(node, "op", _SWAPPED[type(op)]())
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
            double = ast.UnaryOp(type(node.op)(), operand)
            yield _Change(node, "operand", double)
        case ast.Constant(value=bool() as value):
            yield _Change(node, "value", not value)
        case ast.Constant(value=int() as value):
            yield _Change(node, "value", value + 1)
        case ast.IfExp(body=body, orelse=orelse):
            yield _Change(node, "test", ast.UnaryOp(ast.Not(), node.test))
            del body, orelse
        case ast.If() | ast.While():
            yield _Change(node, "test", ast.UnaryOp(ast.Not(), node.test))
        case ast.Continue() | ast.Break():
            pass
