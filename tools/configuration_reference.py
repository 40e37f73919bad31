"""Writes docs/configuration.md from the models that read the configuration (``make reference``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from serve_app.rollout.services import SERVICES, Service
from serve_app.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "configuration.md"

HEAD = """\
# Configuration

<!-- Written by `make reference` from the models that read the configuration. Edit those. -->

- `args` of an application in a serve config take effect with the next deploy.
- `user_config` of a deployment takes effect with the next deploy, without a restart.
- Variables in the environment of `make up`, or of `ray start` on every node, take effect with the
  next start; those of the edge with the next `make up`, `LOG_FORMAT` with the next deploy.

`greenwave check` refuses unknown arguments, values out of range, and arguments that contradict each
other. All other keys of a serve config are Ray's.

## Environment variables

An empty variable counts as unset, except `JWT_SECRET` and `INFERENCE_TOKEN`, which must not be
empty. The commands also read Ray's `RAY_AUTH_TOKEN` and `RAY_AUTH_TOKEN_PATH`.
"""

_UNITS = {"_s": "s", "_minutes": "minutes"}
_SIGNS = {Gt: "> {}", Ge: "≥ {}", Lt: "< {}", Le: "≤ {}"}


def reference() -> str:
    """Return the page."""
    variables = {name.upper(): field for name, field in Settings.model_fields.items()}
    alike = groupby(SERVICES, key=lambda service: (service.options, service.user_config))
    chapters = [_chapter([*services]) for _, services in alike]
    return "".join((HEAD, *_table("Variable", variables), *chapters))


def _chapter(services: Sequence[Service]) -> str:
    """Return the chapter of services with the same keys."""
    title = ", ".join(each.title for each in services)
    names = "; ".join(
        f"`import_path: {each.module}:build`, deployment `{each.deployment}`" for each in services
    )
    lines = [f"\n## {title}\n\n{names}\n"]
    options, user_config = services[0].options.model_fields, services[0].user_config
    if options:
        lines += _table("`args`", options)
    if user_config is not None:
        lines += _table("`user_config`", dict(_keys(user_config)))
    return "".join(lines)


def _keys(model: type[BaseModel], within: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield each key of a configuration, followed by the keys inside of it."""
    for name, field in model.model_fields.items():
        key = within + (field.alias or name)
        yield key, field
        for inner in get_args(field.annotation):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from _keys(inner, f"{key}.")


def _table(first: str, fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    yield f"\n| {first} | Meaning | Default | Range |\n|---|---|---|---|\n"
    for name, field in fields.items():
        cells = (f"`{name}`", field.description or "", *_facts(name, field))
        yield f"| {' | '.join(cells)} |\n"


def _facts(name: str, field: FieldInfo) -> Iterator[str]:
    """Yield default and range, with its unit; what a field declares comes first."""
    declared = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    unit = next((f" {unit}" for end, unit in _UNITS.items() if name.lower().endswith(end)), "")
    yield str(declared.get("default", _default(field)))
    yield str(declared.get("range", _range(field) + unit))


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    match value:
        case None:
            return ""
        case bool():
            return f"`{str(value).lower()}`"
        case Path():
            return f"`{_portable(value)}`"
        case _ if field.is_required():
            return "required"
    return f"`{value}`"


def _portable(path: Path) -> str:
    """Return a path that is the same on every machine."""
    if path.is_relative_to(ROOT):
        return str(path.relative_to(ROOT))
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)


def _range(field: FieldInfo) -> str:
    choices = _choices(field.annotation)
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    bounds = [each for each in field.metadata if isinstance(each, (Gt, Ge, Lt, Le))]
    return ", ".join(
        _SIGNS[type(bound)].format(getattr(bound, type(bound).__name__.lower())) for bound in bounds
    )


def _choices(annotation: Any) -> list[str]:
    return [str(each) for each in get_args(annotation)] if get_origin(annotation) is Literal else []


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
