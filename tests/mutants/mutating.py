"""Mutants of a module: its source with one small thing changed, each place once.

A mutant is named by the function, the statement and what becomes of it, so that its name
outlives a change elsewhere. Lines stay as they are: who knows which tests run a line knows
which tests may notice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

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
_BOTH = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
_NAMED = 70
"""Characters of a statement that a name shows."""


@dataclass(frozen=True)
class Mutant:
    """One change of a module."""

    name: str
    """Where it is and what it does: `function: statement: before -> after`, counted if it
    comes twice."""
    lines: range
    """The lines of the statement that it changes."""
    code: CodeType
    """The module with the change."""


def mutants(source: str, path: str) -> Iterator[Mutant]:
    """Yield the mutants of a module, in the order of its text."""
    tree = ast.parse(source)
    seen: dict[str, int] = {}
    for place in list(_places(tree, _Place(tree, "module", "", range(0)))):
        for change in list(_changes(place.node)):
            before = _shown(change.shown)
            kept = getattr(change.node, change.field)
            setattr(change.node, change.field, change.value)
            ast.fix_missing_locations(change.node)
            what = f"{place.function}: {place.statement}: {before} -> {_shown(change.shown)}"
            code = compile(tree, path, "exec")
            setattr(change.node, change.field, kept)
            seen[what] = seen.get(what, 0) + 1
            name = what if seen[what] == 1 else f"{what} ({seen[what]})"
            yield Mutant(name, place.lines, code)


@dataclass(frozen=True)
class _Place:
    node: ast.AST
    function: str
    statement: str
    lines: range


@dataclass(frozen=True)
class _Change:
    node: ast.AST
    field: str
    value: object
    shown: ast.AST
    """What is shown of it, before and after."""


def code_of(source: str) -> str:
    """Return what a module does: its text without comments and what only readers and types need."""
    return ast.unparse(_Bare().visit(ast.parse(source)))


class _Bare(ast.NodeTransformer):
    """Leaves out annotations, docstrings, `__all__` and imports for types alone."""

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Name("_")
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        exported = ast.unparse(node.targets[0]) == "__all__"
        return None if exported else self.generic_visit(node)


def _shown(node: ast.AST) -> str:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return ast.unparse(test)
    return ast.unparse(node)


def _places(node: ast.AST, place: _Place) -> Iterator[_Place]:
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
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("cast", "field"):
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return  # of `zip`, whose arguments are as long as each other
    place = _Place(node, *_where(node, place))
    yield place
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "keywords") and not (
            name == "keywords" and isinstance(node, ast.Call)
        ):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _places(child, place)


def _where(node: ast.AST, outer: _Place) -> tuple[str, str, range]:
    """Return the function of a node, its statement and the lines of that."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            function = name if outer.function == "module" else f"{outer.function}.{name}"
            return function, f"def {name}", range(node.lineno, node.body[0].lineno)
        case ast.stmt():
            text = ast.unparse(node).splitlines()[0]
            end = node.end_lineno or node.lineno
            body = getattr(node, "body", None)
            if isinstance(body, list) and body:
                end = max(node.lineno, body[0].lineno - 1)
            shown = text if len(text) <= _NAMED else f"{text[: _NAMED - 1]}…"
            return outer.function, shown, range(node.lineno, end + 1)
    return outer.function, outer.statement, outer.lines


def _changes(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.Compare(ops=[op, *more]):
            if type(op) in _SWAPPED:
                yield _Change(node, "ops", [_SWAPPED[type(op)](), *more], node)
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op):
            if type(op) in _SWAPPED:
                yield _Change(node, "op", _SWAPPED[type(op)](), node)
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
            yield _Change(node, "operand", ast.UnaryOp(type(node.op)(), operand), node)
        case ast.Constant(value=bool() as value):
            yield _Change(node, "value", not value, node)
        case ast.Constant(value=int() as value):
            yield _Change(node, "value", value + 1, node)
        case ast.IfExp(test=test) | ast.If(test=test) | ast.While(test=test):
            if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _BOTH:
                return  # which is changed to its contrary by itself
            if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                return
            yield _Change(node, "test", ast.UnaryOp(ast.Not(), test), node)
        case ast.Expr(value=ast.Call()):
            yield _Change(node, "value", ast.Constant(None), node)
