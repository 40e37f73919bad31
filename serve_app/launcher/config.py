"""Reads serve configs strictly: Ray drops unknown keys without a word, so a typing error would
pass as a default."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from ray._common.utils import import_attr
from ray.serve.config import AutoscalingConfig, RequestRouterConfig
from ray.serve.schema import ServeDeploySchema

# Fields that Ray's schema leaves as raw dictionaries although a model exists.
_RAW_FIELDS: dict[str, type[BaseModel]] = {
    "autoscaling_config": AutoscalingConfig,
    "request_router_config": RequestRouterConfig,
}
_FREE_FIELDS = {"args", "user_config", "runtime_env", "policy_kwargs", "request_router_kwargs"}


class InvalidServeConfigError(ValueError):
    """The config would not do what it says; the message lists every fault with its place."""


def read_config(path: Path) -> dict[str, Any]:
    """Read a serve config and check every key of it.

    Raises:
        InvalidServeConfigError: unreadable, unknown keys, or values that Ray or a builder refuses.
    """
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidServeConfigError(f"{path} cannot be read: {error}") from error
    faults = list(find_faults(config))
    if faults:
        raise InvalidServeConfigError(f"{path} is not valid:\n  " + "\n  ".join(faults))
    return typing.cast(dict[str, Any], config)


def find_faults(config: object) -> Iterator[str]:
    """Yield a sentence for each fault."""
    if not isinstance(config, Mapping):
        yield "the file does not hold a mapping"
        return
    unknown = list(_unknown_keys(ServeDeploySchema, config, ""))
    yield from unknown
    try:
        ServeDeploySchema.model_validate(config)
    except ValidationError as error:
        yield from (_sentence(each) for each in error.errors())
        return
    for application in config["applications"]:
        yield from _faults_of_args(application)
        yield from _faults_of_raw_fields(application)


def _sentence(error: Mapping[str, Any]) -> str:
    return f"{'.'.join(map(str, error['loc']))}: {error['msg']}"


def _unknown_keys(model: type[BaseModel], value: Mapping[str, Any], place: str) -> Iterator[str]:
    for key, inner in value.items():
        field = model.model_fields.get(key)
        here = f"{place}{key}"
        if field is None:
            known = ", ".join(sorted(model.model_fields))
            yield f"{here}: unknown key; Ray would ignore it. Known here: {known}"
        elif key not in _FREE_FIELDS:
            inner_model = _RAW_FIELDS.get(key) or _model_in(field.annotation)
            for position, each in enumerate(inner if isinstance(inner, list) else [inner]):
                if inner_model and isinstance(each, Mapping):
                    index = f"[{each.get('name', position)}]" if isinstance(inner, list) else ""
                    yield from _unknown_keys(inner_model, each, f"{here}{index}.")


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The pydantic model inside ``Model | None``, ``list[Model]`` and the like."""
    if inspect.isclass(annotation) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    for argument in typing.get_args(annotation):
        if found := _model_in(argument):
            return found
    return None


def _faults_of_args(application: Mapping[str, Any]) -> Iterator[str]:
    """Import the builder, as Ray would, and validate ``args`` by its signature."""
    place = f"applications[{application.get('name')}]"
    try:
        builder = import_attr(application["import_path"])
    except Exception as error:
        yield f"{place}.import_path: {type(error).__name__}: {error}"
        return
    if inspect.isfunction(builder):
        (parameter,) = inspect.signature(builder).parameters.values()
        if inspect.isclass(parameter.annotation) and issubclass(parameter.annotation, BaseModel):
            try:
                parameter.annotation.model_validate(application.get("args", {}))
            except ValidationError as error:
                yield from (f"{place}.args.{_sentence(each)}" for each in error.errors())


def _faults_of_raw_fields(application: Mapping[str, Any]) -> Iterator[str]:
    for deployment in application.get("deployments", []):
        for name, model in _RAW_FIELDS.items():
            if deployment.get(name) is not None:
                place = f"applications[{application['name']}].deployments[{deployment['name']}]"
                try:
                    model.model_validate(deployment[name])
                except (ValidationError, ValueError) as error:
                    yield f"{place}.{name}: {error}"
