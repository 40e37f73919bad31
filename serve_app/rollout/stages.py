"""Orders of deployment: the stages of a start of Ray, and the steps of a rolling update.

Replicas that start all at once leave no processor to those that serve.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from serve_app.rollout.capacity import INFERENCE
from serve_app.rollout.smoke_test import GATEWAY

Config = dict[str, Any]


def staged_startup(config: Config) -> list[Config]:
    """Return the configs to deploy on a Ray that has just started; the last is the whole one.

    The first has one replica of each application that decides about signals, which the others would
    delay by as long as they need for their own start.
    """
    urgent = [
        each for each in config["applications"] if each["import_path"] in (INFERENCE, GATEWAY)
    ]
    first = {**config, "applications": [minimal(each) for each in urgent]}
    return [first, config] if urgent and first != config else [config]


def minimal(application: Config) -> Config:
    """Return an application with one replica of each deployment. Adding others restarts none."""
    application = copy.deepcopy(application)
    for deployment in application.get("deployments", []):
        if isinstance(deployment.get("num_replicas"), int):
            deployment["num_replicas"] = min(1, deployment["num_replicas"])
        if scaling := deployment.get("autoscaling_config"):
            scaling["min_replicas"] = min(1, scaling.get("min_replicas", 1))
            scaling["max_replicas"] = 1  # what waits during the start would ask for more
            scaling.pop("initial_replicas", None)
    return application


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


def _routes(config: Config) -> dict[str, str | None]:
    return {each["name"]: each.get("route_prefix") for each in config["applications"]}
