"""Strict reading of serve configs: Ray ignores unknown keys, such as misspelt ones."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

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
_UNKNOWN = "extra_forbidden"
# Of arguments, of `user_config`, and of the environment.
_PATHS = {"network", "agent_path", "model_path", "plan_file"} | {
    name.upper() for name in Settings.model_fields if name.endswith("_path")
}


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
        InvalidServeConfigError: it is not YAML, or Ray or a builder would refuse it.
        OSError: it cannot be read.
    """
    try:
        config = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeyLoader)
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidServeConfigError(path, [f"Cannot read it: {error}"]) from error
    if faults := list(find_faults(config)):
        raise InvalidServeConfigError(path, faults)
    for application in config["applications"]:
        application.setdefault("route_prefix", "/")  # as Ray does
        _anchor_paths(application, path.parent)
    if Settings().log_format == "json":
        config["logging_config"] = {**(config.get("logging_config") or {}), "encoding": "JSON"}
    return cast(dict[str, Any], config)


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
    wrong = _errors_of(ServeDeploySchema, config)
    yield from map(_sentence, wrong)
    if any(each["type"] != _UNKNOWN for each in wrong):
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
        for at, deployment in _placed_deployments(application):
            for field, model in _RAW_FIELDS.items():
                for each in _errors_of(model, deployment.get(field) or {}):
                    yield _sentence(each, f"{at}.{field}")
    yield from _contradictions(options)


def _errors_of(model: type[BaseModel], value: object) -> list[Mapping[str, Any]]:
    """Return what the model refuses, unknown keys at any depth among it."""
    try:
        model.model_validate(value, extra="forbid")
    except ValidationError as error:
        return [*error.errors()]
    return []


def _sentence(error: Mapping[str, Any], *place: str) -> str:
    where = ".".join(map(str, (*place, *error["loc"])))
    return f"{where}: unknown key" if error["type"] == _UNKNOWN else f"{where}: {error['msg']}"


def _placed_deployments(application: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each deployment, after its place in the config."""
    for deployment in application.get("deployments", []):
        yield f"applications[{application['name']}].deployments[{deployment['name']}]", deployment


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
    for at, deployment in _placed_deployments(application):
        if deployment["name"] != service.deployment:
            yield f"{at}.name: the deployment of this application is {service.deployment}"
        user_config = deployment.get("user_config")
        if user_config is None:
            continue
        if service.user_config is None:
            yield f"{at}.user_config: {service.deployment} has none"
            continue
        for each in _errors_of(service.user_config, user_config):
            yield _sentence(each, f"{at}.user_config")


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
