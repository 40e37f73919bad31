"""Incompatible changes between two versions of an OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tools.openapi.documents import Document
from tools.openapi.schemas import Change, SchemaComparison

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_NO_DEFAULT: Mapping[str, Any] = {}


def incompatible_changes(old: Document, new: Document) -> list[str]:
    """Return a sentence for each change that breaks a client of the old document.

    New paths, optional parameters and fields, fields of answers and failures break no client.
    """
    return sorted({str(change) for change in _Documents(old, new).changes()})


def major(document: Document) -> int:
    """Return the first number of a document's version."""
    return int(document["info"]["version"].partition(".")[0])


class _Documents:
    def __init__(self, old: Document, new: Document) -> None:
        self._old, self._new = old, new
        self._requests = SchemaComparison(old, new, taken=True)
        self._answers = SchemaComparison(old, new, taken=False)

    def changes(self) -> Iterator[Change]:
        for path, operations in self._old["paths"].items():
            later = self._new["paths"].get(path, _NO_DEFAULT)
            for method in _METHODS:
                place = f"{method.upper()} {path}"
                if method in operations and method not in later:
                    yield Change(place, "the operation", "there", "gone")
                elif method in operations:
                    yield from self._of_operation(place, operations[method], later[method])

    def _of_operation(self, place: str, old: Any, new: Any) -> Iterator[Change]:
        yield from self._of_parameters(place, old, new)
        yield from self._of_body(f"{place}, body", old.get("requestBody"), new.get("requestBody"))
        if new.get("security") and new["security"] != old.get("security"):
            yield Change(place, "the login", *map(_login, (old, new)))
        for status, before in old["responses"].items():
            answer = f"{place}, answer {status}"
            if status in new["responses"]:
                yield from self._of_answer(answer, before, new["responses"][status])
            else:
                yield Change(answer, "this status", "documented", "gone")

    def _of_parameters(self, place: str, old: Any, new: Any) -> Iterator[Change]:
        before, after = _parameters(old), _parameters(new)
        for key, parameter in after.items():
            was_required = before.get(key, _NO_DEFAULT).get("required", False)
            if parameter.get("required", False) and not was_required:
                there = "optional" if key in before else "unknown"
                yield Change(place, f"the {key}", there, "required")
        for key, parameter in before.items():
            if key not in after:
                yield Change(place, f"the {key}", "there", "gone")
            else:
                schemas = parameter["schema"], after[key]["schema"]
                yield from self._requests.changes(*schemas, f"{place}, {key}")

    def _of_body(self, place: str, old: Any, new: Any) -> Iterator[Change]:
        if new and new.get("required", False) and not (old and old.get("required", False)):
            yield Change(place, "it", "optional" if old else "unknown", "required")
        if old:
            yield from self._of_content(place, old, new or _NO_DEFAULT, self._requests)

    def _of_answer(self, place: str, old: Any, new: Any) -> Iterator[Change]:
        yield from self._of_content(place, old, new, self._answers)
        after = new.get("headers", _NO_DEFAULT)
        for name, header in old.get("headers", _NO_DEFAULT).items():
            if name not in after:
                yield Change(place, f"the header `{name}`", "there", "gone")
            else:
                schemas = header["schema"], after[name]["schema"]
                yield from self._answers.changes(*schemas, f"{place}, header `{name}`")

    def _of_content(
        self, place: str, old: Any, new: Any, comparison: SchemaComparison
    ) -> Iterator[Change]:
        after = new.get("content", _NO_DEFAULT)
        for media_type, before in old.get("content", _NO_DEFAULT).items():
            if media_type not in after:
                yield Change(place, f"the form {media_type}", "there", "gone")
            else:
                schemas = before.get("schema", {}), after[media_type].get("schema", {})
                yield from comparison.changes(*schemas, place)


def _login(operation: Any) -> str:
    return " or ".join("+".join(each) for each in operation.get("security", ())) or "needless"


def _parameters(operation: Any) -> dict[str, Any]:
    parameters = operation.get("parameters", ())
    return {f"{each['in']} parameter `{each['name']}`": each for each in parameters}
