"""Orders of deployment: the stages of a start of Ray, and the steps of a rolling update.

Replicas that start all at once leave no processor to those that serve.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from serve_app.rollout.capacity import INFERENCE
from serve_app.rollout.smoke_test import GATEWAY

CONSOLE = "serve_app.console:build"

Config = dict[str, Any]


def staged_startup(config: Config) -> Iterator[Config]:
    """Yield the configs to deploy on a Ray that has just started; the last is the whole one.

    The first has one replica of the applications that decide about signals, which the others would
    delay by as long as they need for their own start. The second has one replica of each
    application that programs call, the third of the console, too, and the following ones complete
    one application at a time.
    """
    smallest = minimal(config)["applications"]
    now = {each["name"]: each for each in smallest}
    urgent = [each for each in smallest if each["import_path"] in (INFERENCE, GATEWAY)]
    called = [each for each in smallest if each["import_path"] != CONSOLE]
    for stage, next_stage in pairwise((urgent, called, smallest)):
        if stage and stage != next_stage:
            yield {**config, "applications": stage}
    yield {**config, "applications": smallest}
    for application in config["applications"]:
        if now.get(application["name"], application) != application:
            now[application["name"]] = application
            yield {**config, "applications": list(now.values())}
    if len(now) < len(config["applications"]):
        yield config


def minimal(config: Config) -> Config:
    """Return the config with one replica of each deployment, and one application of each kind.

    On few cores, twice the replicas take twice the time to start, and one of each serves already.
    Adding the others restarts none. An application that repeats another one at a second path can
    wait, too: the edge sends that path to the first.
    """
    config = copy.deepcopy(config)
    first = {_kind(each): each["name"] for each in reversed(config["applications"])}
    config["applications"] = [
        each for each in config["applications"] if first[_kind(each)] == each["name"]
    ]
    for application in config["applications"]:
        for deployment in application.get("deployments", []):
            if isinstance(deployment.get("num_replicas"), int):
                deployment["num_replicas"] = min(1, deployment["num_replicas"])
            if scaling := deployment.get("autoscaling_config"):
                scaling["min_replicas"] = min(1, scaling.get("min_replicas", 1))
                scaling["max_replicas"] = 1  # what waits during the start would ask for more
                scaling.pop("initial_replicas", None)
    return config


def rolling_update(before: Config | None, after: Config) -> Iterator[tuple[str | None, Config]]:
    """Yield configs to deploy one after the other, each with the name of the changed application.

    The last is ``after``, without a name. It is the only one where applications are added, removed
    or moved to other routes.
    """
    now = {each["name"]: each for each in (before or after)["applications"]}
    if before and _routes(before) == _routes(after):
        changed = [each for each in after["applications"] if each != now[each["name"]]]
        for application in changed[:-1]:
            now[application["name"]] = application
            yield application["name"], after | {"applications": list(now.values())}
    yield None, after


def _kind(application: Config) -> str:
    """Return what an application serves, at whatever path."""
    return json.dumps([application["import_path"], application.get("args") or {}], sort_keys=True)


def _routes(config: Config) -> dict[str, str | None]:
    return {each["name"]: each.get("route_prefix") for each in config["applications"]}
