"""Comparison of two JSON schemas: can one side read every value that the other side writes?

The service must accept what clients send, and clients must know what the service answers. In both
cases, the schema of the writer must be the narrower one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any]
Pairs = tuple[tuple[int, int], ...]

_AT_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_AT_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_NOT_COMPARED = {"allOf", "not", "if", "prefixItems", "patternProperties", "propertyNames"}
_EQUAL = ("pattern", "format", "multipleOf", "uniqueItems")


@dataclass(frozen=True)
class Change:
    """An incompatible change, and its place."""

    place: str
    what: str
    old: object
    new: object

    def __str__(self) -> str:
        return f"{self.place}: {self.what} was {self.old}, is {self.new}"


class SchemaComparison:
    """Compares schemas of one document with those of a later one.

    Args:
        taken: whether the service accepts the values, or answers with them.
    """

    def __init__(self, old: Schema, new: Schema, taken: bool) -> None:
        self._old_document, self._new_document = old, new
        self._taken = taken

    def changes(self, old: Any, new: Any, place: str, within: Pairs = ()) -> Iterator[Change]:
        """Yield changes that break a client of the old schema."""
        old, new = _resolve(old, self._old_document), _resolve(new, self._new_document)
        pair = id(old), id(new)
        if pair in within:  # a schema that contains itself has been compared already
            return
        within = (*within, pair)
        narrow, wide = (old, new) if self._taken else (new, old)
        if _alternatives(narrow) or _alternatives(wide):
            yield from self._of_alternatives(narrow, wide, place, within)
            return
        yield from self._of_values(narrow, wide, place)
        yield from self._of_fields(old, new, place, within)
        if "items" in wide:
            yield from self._ordered(narrow.get("items", {}), wide["items"], f"{place}[]", within)

    def _ordered(self, narrow: Any, wide: Any, place: str, within: Pairs) -> Iterator[Change]:
        old, new = (narrow, wide) if self._taken else (wide, narrow)
        return self.changes(old, new, place, within)

    def _change(self, place: str, what: str, narrow: object, wide: object) -> Change:
        old, new = (narrow, wide) if self._taken else (wide, narrow)
        return Change(place, what, old, new)

    def _of_alternatives(
        self, narrow: Schema, wide: Schema, place: str, within: Pairs
    ) -> Iterator[Change]:
        """Yield the changes between each alternative and its namesake, or the most similar one."""
        others = _alternatives(wide) or [wide]
        for each in _alternatives(narrow) or [narrow]:
            named = [other for other in others if "$ref" in other and other == each]
            found = (list(self._ordered(each, other, place, within)) for other in named or others)
            yield from min(found, key=len)

    def _of_values(self, narrow: Schema, wide: Schema, place: str) -> Iterator[Change]:
        if not _types(narrow) <= _types(wide):
            yield self._change(place, "the type", _named(narrow), _named(wide))
            return
        values, known = _values(narrow), _values(wide)
        if known is not None and (values is None or not all(each in known for each in values)):
            yield self._change(place, "the value", _one_of(values), _one_of(known))
        for key in (*_AT_LEAST, *_AT_MOST, *_EQUAL):
            bound, asked = narrow.get(key), wide.get(key)
            if asked is not None and not _keeps(key, bound, asked):
                yield self._change(place, key, bound, asked)

    def _of_fields(self, old: Schema, new: Schema, place: str, within: Pairs) -> Iterator[Change]:
        before, after = old.get("properties", {}), new.get("properties", {})
        for name in before.keys() - after.keys():
            yield Change(place, f"the field `{name}`", "there", "gone")
        for name in before.keys() & after.keys():
            yield from self.changes(before[name], after[name], f"{place}.{name}", within)
        narrow, wide = (old, new) if self._taken else (new, old)
        for name in set(wide.get("required", ())) - set(narrow.get("required", ())):
            there = "optional" if name in narrow.get("properties", {}) else "unknown"
            yield self._change(place, f"the field `{name}`", there, "required")
        others = wide.get("additionalProperties", True)
        if others is False and narrow.get("additionalProperties", True) is not False:
            yield self._change(place, "any further field", "possible", "impossible")
        elif isinstance(others, Mapping):
            further = narrow.get("additionalProperties", {})
            yield from self._ordered(further, others, f"{place}.*", within)


def _resolve(schema: Any, document: Schema) -> Schema:
    if schema is True:
        return {}
    while "$ref" in schema:
        found: Any = document
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        schema = found
    unknown = sorted(_NOT_COMPARED & schema.keys())
    if unknown:
        raise NotImplementedError(f"{', '.join(unknown)}: there is no rule for the comparison yet")
    resolved: Schema = schema
    return resolved


def _alternatives(schema: Schema) -> list[Any]:
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ())]


def _types(schema: Schema) -> set[str]:
    declared = schema.get("type", ["string", "number", "boolean", "array", "object", "null"])
    types = {declared} if isinstance(declared, str) else set(declared)
    return types | {"integer"} if "number" in types else types


def _named(schema: Schema) -> str:
    declared = schema.get("type", "any")
    return declared if isinstance(declared, str) else " or ".join(declared)


def _values(schema: Schema) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _one_of(values: list[Any] | None) -> str:
    return "any" if values is None else " or ".join(map(repr, values))


def _keeps(key: str, bound: Any, asked: Any) -> bool:
    if bound is None:
        return False
    if key in _EQUAL:
        return bool(bound == asked)
    return bool(bound >= asked if key in _AT_LEAST else bound <= asked)
