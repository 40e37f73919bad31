"""Strict reading of serve configs: Ray ignores unknown keys, such as misspelt ones."""

from __future__ import annotations

import inspect
import pkgutil
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from ray.serve import Application, Deployment
from ray.serve.config import AutoscalingConfig, RequestRouterConfig
from ray.serve.schema import ServeDeploySchema
from yaml.composer import ComposerError

from deployments.console.options import ConsoleOptions
from deployments.gateway.options import GatewayOptions
from deployments.inference.options import InferenceOptions
from serve_app.errors import ROOT, CommandError, place
from serve_app.files import anchored
from serve_app.rollout.services import SERVICES
from serve_app.settings import Settings

# Fields that Ray's schema leaves as dictionaries although Ray has a model of them.
_RAW_FIELDS: dict[str, type[BaseModel]] = {
    "autoscaling_config": AutoscalingConfig,
    "request_router_config": RequestRouterConfig,
}
# Of arguments, of `user_config`, and of the environment.
_PATHS = {"network", "agent_path", "model_path", "plan_file"} | {
    name.upper() for name in Settings.model_fields if name.endswith("_path")
}
_FREE_FIELDS = {"args", "user_config", "runtime_env", "policy_kwargs", "request_router_kwargs"}


class InvalidServeConfigError(CommandError):
    """The config is not valid; the message lists every fault with its place."""

    def __init__(self, path: Path, faults: list[str]) -> None:
        super().__init__(f"{path} is not valid:\n  " + "\n  ".join(faults))
        self.faults = faults


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a mapping with a key twice, of which PyYAML takes the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key.value, str) and (key.tag, key.value) in seen:
                fault = f"found the key {key.value!r} twice"
                raise ComposerError(
                    "while reading a mapping", node.start_mark, fault, key.start_mark
                )
            seen.add((key.tag, str(key.value)))
        return node


def read_config(path: Path) -> dict[str, Any]:
    """Read a serve config, check every key of it, and set the log format of the settings.

    Raises:
        InvalidServeConfigError: it cannot be read, or Ray or a builder would refuse it.
    """
    try:
        config = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeyLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidServeConfigError(path, [f"Cannot read it: {error}"]) from error
    if faults := list(find_faults(config)):
        raise InvalidServeConfigError(path, faults)
    for application in config["applications"]:
        application.setdefault("route_prefix", "/")  # as Ray does
        _anchor_paths(application, path.parent)
    if Settings().log_format == "json":
        config["logging_config"] = {**(config.get("logging_config") or {}), "encoding": "JSON"}
    return typing.cast(dict[str, Any], config)


def _anchor_paths(application: dict[str, Any], folder: Path) -> None:
    """Make paths absolute, from the folder of the config; what is shipped has one on every node."""
    places = [application.get("args"), (application.get("runtime_env") or {}).get("env_vars")]
    for deployment in application.get("deployments", ()):
        user_config = deployment.get("user_config") or {}
        places += [user_config, user_config.get("canary")]
    for options in filter(None, places):
        for key in _PATHS & options.keys():
            if options[key] and not (ROOT / options[key]).exists():
                is_missing = not (folder / options[key]).exists()
                is_shipped = folder.resolve() == ROOT / "configs"  # where paths begin at ROOT
                options[key] = anchored(options[key], ROOT if is_missing and is_shipped else folder)


def find_faults(config: object) -> Iterator[str]:
    """Yield a sentence for each fault."""
    if not isinstance(config, Mapping):
        yield "the file does not have a mapping"
        return
    unknown = list(_unknown_keys(ServeDeploySchema, config, ""))
    yield from unknown
    try:
        ServeDeploySchema.model_validate(config)
    except ValidationError as error:
        yield from (_sentence(each) for each in error.errors())
        return
    options: dict[str, BaseModel | None] = {}
    for position, application in enumerate(config["applications"]):
        if (name := application.get("name")) is None:
            yield f"applications[{position}].name: the application needs a name"
            continue
        if application.get("route_prefix", "/") is None:
            fault = f"route_prefix: the application needs a path, such as /{name}"
            yield f"applications[{name}].{fault}"
        try:
            options[name] = _read_args(application)
        except ValidationError as error:
            yield from (
                f"applications[{name}].{_sentence(each, 'args')}" for each in error.errors()
            )
        except SyntaxError as error:
            yield f"applications[{name}].import_path: {place(error)}: {error.msg}"
        except Exception as error:
            yield f"applications[{name}].import_path: {type(error).__name__}: {error}"
        else:
            yield from _faults_of_deployments(application)
        yield from _faults_of_raw_fields(application)
    yield from _contradictions(options)


def _sentence(error: Mapping[str, Any], *place: str) -> str:
    return f"{'.'.join(map(str, (*place, *error['loc'])))}: {error['msg']}"


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
    """Return the pydantic model inside of ``Model | None``, ``list[Model]`` and the like."""
    if inspect.isclass(annotation) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    for argument in typing.get_args(annotation):
        if found := _model_in(argument):
            return found
    return None


def _read_args(application: Mapping[str, Any]) -> BaseModel | None:
    """Import the builder as Ray would, and read ``args`` by the model in its signature.

    Raises:
        ValidationError: the model refuses them.
        TypeError: the path names neither a builder nor an application.
        Exception: the import fails.
    """
    builder = pkgutil.resolve_name(application["import_path"])
    if isinstance(builder, (Application, Deployment)):
        return None
    if not inspect.isfunction(builder):
        raise TypeError(f"{application['import_path']} is not a builder or an application")
    (parameter,) = inspect.signature(builder).parameters.values()
    model = parameter.annotation
    if not (inspect.isclass(model) and issubclass(model, BaseModel)):
        return None
    return model.model_validate(application.get("args", {}))


def _faults_of_deployments(application: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each deployment that the service lacks, or that it cannot configure."""
    builder = application["import_path"]
    service = next((each for each in SERVICES if builder == f"{each.module}:build"), None)
    if service is None:
        return
    for deployment in application.get("deployments", []):
        place = f"applications[{application['name']}].deployments[{deployment['name']}]"
        if deployment["name"] != service.deployment:
            yield f"{place}.name: the deployment of this application is {service.deployment}"
        user_config = deployment.get("user_config")
        if user_config is None:
            continue
        if service.user_config is None:
            yield f"{place}.user_config: {service.deployment} has none"
            continue
        try:
            service.user_config.model_validate(user_config)
        except ValidationError as error:
            yield from (f"{place}.user_config.{_sentence(each)}" for each in error.errors())


def _contradictions(options: Mapping[str, BaseModel | None]) -> Iterator[str]:
    """Yield a sentence for each gateway and console with another network than the policy's."""
    served = {
        app: each.network for app, each in options.items() if isinstance(each, InferenceOptions)
    }
    for name, each in options.items():
        if not isinstance(each, GatewayOptions | ConsoleOptions):
            continue
        asked = [each.inference_app] if isinstance(each, GatewayOptions) else served
        networks = {app: served[app] for app in asked if app in served}
        if networks and each.network not in networks.values():
            app, other = next(iter(networks.items()))
            yield (
                f"applications[{name}].args.network is {each.network or 'not set'}, but"
                f" applications[{app}].args.network is {other or 'not set'}: name the same file"
                " in both"
            )


def _faults_of_raw_fields(application: Mapping[str, Any]) -> Iterator[str]:
    for deployment in application.get("deployments", []):
        for name, model in _RAW_FIELDS.items():
            if deployment.get(name) is not None:
                place = f"applications[{application['name']}].deployments[{deployment['name']}]"
                try:
                    model.model_validate(deployment[name])
                except (ValidationError, ValueError) as error:
                    yield f"{place}.{name}: {error}"
