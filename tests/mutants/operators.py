"""Generic mutants: every place of a module that an operator can change, one change at a time.

The operators are those that find missing tests in code of this kind: a protocol whose guards,
waits and notes each prevent one schedule. They leave out statements and operands, force
conditions, swap bounds and catch less. Tools such as mutmut and cosmic-ray leave no statement out.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from tests.mutants.mutant import Mutant, MutantError, Slot, functions, parse, slots

_BOUNDS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_OPPOSITES = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LOGS = ("log", "logger", "_log", "_outages", "tracing")
_SKIPPED = (ast.Assert, ast.JoinedStr)


class Change(NamedTuple):
    """A possible change at one place.

    Attributes:
        about: what it does, in a line.
        make: makes it.
    """

    about: str
    make: Callable[[], None]


def mutants_of(module: str) -> list[Mutant]:
    """Return all generic mutants of a module, in the order of the source."""
    found: list[Mutant] = []
    for name, function in functions(parse(module)):
        seen: Counter[str] = Counter()
        for number, change in enumerate(_changes(function)):
            seen[change.about] += 1
            nth = f" (no. {seen[change.about]})" if seen[change.about] > 1 else ""
            rewrite = partial(_make, number=number, about=change.about)
            found.append(Mutant(change.about + nth, f"{module}:{name}", rewrite))
    return found


def _make(function: ast.AST, number: int, about: str) -> None:
    change = list(_changes(function))[number]
    if change.about != about:
        raise MutantError("the source has changed meanwhile")
    change.make()


def _changes(function: ast.AST) -> Iterator[Change]:
    if getattr(function, "name", "") == "__init__":
        return  # without an attribute, everything fails
    for slot in _relevant(function):
        for operator in (_statements, _conditions, _operands, _expressions, _handlers):
            yield from operator(slot)


def _relevant(function: ast.AST) -> Iterator[Slot]:
    """Yield the slots of what runs when the function is called, without what only informs."""
    skipped: set[int] = set()
    for slot in slots(function):
        node = slot.node
        if (
            id(slot.parent) in skipped
            or isinstance(node, _SKIPPED)
            or slot.field in ("annotation", "returns", "decorator_list", "defaults", "kw_defaults")
            or (isinstance(node, ast.Expr) and _only_informs(node.value))
            or (isinstance(node, ast.keyword) and node.arg == "strict")
        ):
            skipped.add(id(node))
        else:
            if isinstance(node, ast.Raise):
                skipped.add(id(node))  # the text of an error is for readers
            yield slot


def _only_informs(expression: ast.AST) -> bool:
    if isinstance(expression, ast.Constant):
        return True
    root = expression.func if isinstance(expression, ast.Call) else expression
    names = {each.attr if isinstance(each, ast.Attribute) else each.id for each in _chain(root)}
    return bool(names & set(_LOGS))


def _chain(node: ast.AST) -> Iterator[ast.Attribute | ast.Name]:
    while isinstance(node, ast.Attribute):
        yield node
        node = node.value
    if isinstance(node, ast.Name):
        yield node


def _shown(node: ast.AST) -> str:
    first, *more = ast.unparse(node).split("\n")
    return f"`{first}{' …' if more else ''}`"


# Operators. Each yields the changes that it can make at a slot.


def _statements(slot: Slot) -> Iterator[Change]:
    """Leave a statement out, a block uncovered, a loop after its first round."""
    match node := slot.node:
        case ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Raise():
            if not _is_all_of_an_if(slot):
                yield Change(f"drop {_shown(node)}", lambda: slot.replace(ast.Pass()))
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript() | ast.Tuple()]):
            if not _is_all_of_an_if(slot):
                yield Change(f"drop {_shown(node)}", lambda: slot.replace(ast.Pass()))
        case ast.With(items=items) | ast.AsyncWith(items=items):
            if all(item.optional_vars is None for item in items) and not any(
                _only_informs(item.context_expr) for item in items
            ):
                body = node.body
                yield Change(f"without {_shown(node)}", lambda: slot.replace(*body))
        case ast.While(body=body) | ast.For(body=body) | ast.AsyncFor(body=body):
            if not isinstance(body[-1], (ast.Return, ast.Break, ast.Raise)):
                yield Change(f"once {_shown(node)}", lambda: body.append(ast.Break()))


def _is_all_of_an_if(slot: Slot) -> bool:
    """Whether to leave the statement out is to force the condition around it."""
    parent = slot.parent
    return isinstance(parent, ast.If) and len(parent.body) == 1 and not parent.orelse


def _conditions(slot: Slot) -> Iterator[Change]:
    """Force a condition."""
    node, parent = slot.node, slot.parent
    is_condition = (
        (slot.field == "test" and isinstance(parent, (ast.If, ast.IfExp, ast.While)))
        or (slot.field == "ifs" and isinstance(parent, ast.comprehension))
        or (isinstance(parent, ast.Return) and _is_truth_value(node))
    )
    if is_condition:
        for value in (False, True):
            if not (isinstance(node, ast.Constant) or (value and isinstance(parent, ast.While))):
                constant = ast.Constant(value)
                yield Change(f"{value} for {_shown(node)}", partial(slot.replace, constant))
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        opposite = _OPPOSITES.get(type(node.ops[0]))
        if opposite is not None and not isinstance(parent, (ast.BoolOp, ast.UnaryOp)):
            yield _operator(node, "ops", [opposite()])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and not is_condition:
        yield Change(f"without not: {_shown(node)}", partial(slot.replace, node.operand))


def _is_truth_value(node: ast.AST) -> bool:
    is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return is_not or isinstance(node, (ast.BoolOp, ast.Compare))


def _operands(slot: Slot) -> Iterator[Change]:
    """Leave an operand of ``and``, ``or``, ``|``, ``min``, ``max`` or a display out."""
    node = slot.node
    match node:
        case (
            ast.BinOp(op=ast.BitOr(), left=left, right=right)
            | ast.Call(func=ast.Name(id="min" | "max"), args=[left, right], keywords=[])
        ):
            for kept in (left, right):
                yield Change(f"{_shown(kept)} for {_shown(node)}", partial(slot.replace, kept))
    if isinstance(node, ast.BoolOp):
        what, parts = "operand", node.values
    elif isinstance(node, (ast.Tuple, ast.List)) and isinstance(node.ctx, ast.Load):
        what, parts = "item", node.elts
    else:
        return
    if len(parts) < 2 or isinstance(slot.parent, (ast.Subscript, ast.ExceptHandler)):
        return
    for index, part in enumerate(parts):
        change: Callable[[], None] = partial(parts.__delitem__, index)
        if isinstance(node, ast.BoolOp) and len(parts) == 2:
            change = partial(slot.replace, parts[1 - index])
        yield Change(f"drop {what} {_shown(part)} of {_shown(node)}", change)


def _expressions(slot: Slot) -> Iterator[Change]:
    """Move a bound, change an operation, a number or a truth value."""
    match node := slot.node:
        case ast.Compare(ops=[op]) if type(op) in _BOUNDS:
            yield _operator(node, "ops", [_BOUNDS[type(op)]()])
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            flipped = ast.BinOp(right, ast.BitOr(), left)
            yield Change(f"flip {_shown(node)}", partial(slot.replace, flipped))
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in _ARITHMETIC:
            yield _operator(node, "op", _ARITHMETIC[type(op)]())
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            call = ast.Name(_CALLS[name], ast.Load())
            yield Change(f"{call.id} for {_shown(node)}", partial(setattr, node, "func", call))
        case ast.Await(value=ast.Call(func=ast.Attribute(attr="shield"), args=[inner])):
            yield Change(f"without shield: {_shown(node)}", partial(setattr, node, "value", inner))
        case ast.Constant(value=bool(value)):
            yield Change(
                f"{not value} for {_context(slot)}", partial(slot.replace, ast.Constant(not value))
            )
        case ast.Constant(value=int(value)):
            for other in (value + 1, value - 1):
                yield Change(
                    f"{other} for {value} in {_context(slot)}",
                    partial(slot.replace, ast.Constant(other)),
                )


def _operator(node: ast.AST, field: str, operator: object) -> Change:
    before = _shown(node)
    old = getattr(node, field)
    setattr(node, field, operator)
    after = _shown(node)
    setattr(node, field, old)
    return Change(f"{after} for {before}", partial(setattr, node, field, operator))


def _context(slot: Slot) -> str:
    return _shown(slot.parent)


def _handlers(slot: Slot) -> Iterator[Change]:
    """Catch less."""
    node = slot.node
    if not isinstance(node, ast.ExceptHandler) or node.type is None:
        return
    if isinstance(node.type, ast.Tuple):
        types = node.type.elts
        for index, each in enumerate(types):
            yield Change(f"do not catch {_shown(each)}", partial(types.__delitem__, index))
    else:
        nothing = ast.Tuple([], ast.Load())
        yield Change(f"do not catch {_shown(node.type)}", partial(setattr, node, "type", nothing))
