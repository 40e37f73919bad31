"""A mutant: a rewrite of the syntax tree of one function, so that wording and layout do not matter.

The rewrites ``drop``, ``swap`` and ``put`` find their place by a piece of Python. It matches when
its syntax tree is the same, and it must match exactly once in the function.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

Rewrite = Callable[[ast.AST], None]
"""Changes the syntax tree of a function, a class or a module."""

_BODIES = ("body", "orelse", "finalbody", "handlers")


class MutantError(Exception):
    """A mutant does not fit the source."""


class Mutant(NamedTuple):
    """One defect.

    Attributes:
        name: what goes wrong.
        place: ``package.module:function``, with the class before the name of a method.
    """

    name: str
    place: str
    rewrite: Rewrite

    @property
    def module(self) -> str:
        return self.place.partition(":")[0]

    @property
    def function(self) -> str:
        return self.place.partition(":")[2]

    def __str__(self) -> str:
        return f"{self.place}: {self.name}"

    def tree(self) -> ast.Module:
        """Return the syntax tree of the module with the defect.

        Raises:
            MutantError: the rewrite does not fit the source.
        """
        tree = parse(self.module)
        before = ast.dump(tree)
        try:
            self.rewrite(find(tree, self.function))
        except MutantError as error:
            raise MutantError(f"{self}: {error}") from None
        if ast.dump(tree) == before:
            raise MutantError(f"{self}: nothing changes")
        return ast.fix_missing_locations(tree)


def path_of(module: str) -> Path:
    return ROOT / (module.replace(".", "/") + ".py")


def parse(module: str) -> ast.Module:
    return ast.parse(path_of(module).read_text(encoding="utf-8"))


def find(tree: ast.Module, name: str) -> ast.AST:
    """Return the function or class of a qualified name; the module itself for ""."""
    found: ast.AST = tree
    for part in filter(None, name.split(".")):
        inner = [
            each
            for each in ast.iter_child_nodes(found)
            if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            and each.name == part
        ]
        if len(inner) != 1:
            raise MutantError(f"{len(inner)} functions or classes are called {name}")
        found = inner[0]
    return found


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield every function and method that is not inside another function, with its name."""

    def within(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield prefix + each.name, each
            elif isinstance(each, ast.ClassDef):
                yield from within(each, f"{prefix}{each.name}.")

    return within(tree, "")


class Slot(NamedTuple):
    """Where a node is in the tree: a field of another node, or an item of one."""

    parent: ast.AST
    field: str
    at: int | None

    @property
    def node(self) -> ast.AST:
        value = getattr(self.parent, self.field)
        found: ast.AST = value if self.at is None else value[self.at]
        return found

    def replace(self, *nodes: ast.AST) -> None:
        """Put one node, or any number of statements, in place of this one."""
        if self.at is None:
            (node,) = nodes
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.at : self.at + 1] = nodes


def slots(node: ast.AST) -> Iterator[Slot]:
    """Yield the slots of all nodes inside a node, outer ones first."""
    for field, value in ast.iter_fields(node):
        for index, each in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(each, ast.AST):
                slot = Slot(node, field, index)
                yield slot
                yield from slots(each)


def drop(statement: str) -> Rewrite:
    """Leave a statement out. Of a compound one, give the first line: all of it goes."""
    return put(statement, "pass")


def put(statement: str, instead: str) -> Rewrite:
    """Put statements in place of one; ``BODY`` among them stands for the body of that one."""

    def rewrite(function: ast.AST) -> None:
        slot = _only_match(function, _statement(statement), statement)
        body = getattr(slot.node, "body", [])
        statements = ast.parse(instead).body
        for each in list(slots(ast.Module(statements, []))):
            if ast.unparse(each.node) == "BODY" and isinstance(each.node, ast.Expr):
                each.replace(*body)
        slot.replace(*statements)

    return rewrite


def swap(expression: str, by: str) -> Rewrite:
    """Put another expression in place of one."""

    def rewrite(function: ast.AST) -> None:
        wanted = ast.parse(expression, mode="eval").body
        slot = _only_match(function, wanted, expression)
        slot.replace(ast.parse(by, mode="eval").body)

    return rewrite


def _statement(text: str) -> ast.stmt:
    (statement,) = ast.parse(f"{text} ..." if text.endswith(":") else text).body
    return statement


def _only_match(function: ast.AST, wanted: ast.AST, text: str) -> Slot:
    dumped = _header(wanted)
    matches = [slot for slot in slots(function) if _header(slot.node) == dumped]
    if len(matches) != 1:
        raise MutantError(f"`{text}` matches {len(matches)} times, and must match once")
    return matches[0]


def _header(node: ast.AST) -> str:
    """Dump a node without the statements inside of it, and without its position and context."""
    kept = type(node)(
        **{
            field: value
            for field, value in ast.iter_fields(node)
            if field not in _BODIES or not isinstance(value, list)
        }
    )
    return ast.dump(kept).replace("Store()", "Load()").replace("Del()", "Load()")
