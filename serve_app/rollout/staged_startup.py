"""How a cluster that has just started comes to its config: soonest to one replica of each."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any


def lean(config: dict[str, Any]) -> dict[str, Any]:
    """Return the config with one replica of each deployment, and one application of each kind.

    On few cores, twice the replicas take twice the time to start, and one of each serves already.
    Adding the others restarts none. An application that repeats another under a second path can
    wait, too: the edge leads that path to the first.
    """
    config = copy.deepcopy(config)
    first = {_what(each): each["name"] for each in reversed(config["applications"])}
    config["applications"] = [
        each for each in config["applications"] if first[_what(each)] == each["name"]
    ]
    for application in config["applications"]:
        for deployment in application.get("deployments", []):
            if isinstance(deployment.get("num_replicas"), int):
                deployment["num_replicas"] = min(1, deployment["num_replicas"])
            if scaling := deployment.get("autoscaling_config"):
                scaling["min_replicas"] = min(1, scaling.get("min_replicas", 1))
                scaling.pop("initial_replicas", None)
    return config


def growing(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the configs to be deployed one after the other; the last is the whole one.

    The first has the first application alone, whose state actors start after its replicas: on few
    cores it ends with the others when it begins before them. From the third on, one application
    after the other grows: more at once would leave those that serve no processor to serve with.
    """
    soonest = lean(config)
    now = {each["name"]: each for each in soonest["applications"]}
    yield {**config, "applications": soonest["applications"][:1]}
    yield soonest
    for application in config["applications"]:
        if now.get(application["name"], application) != application:
            now[application["name"]] = application
            yield {**config, "applications": list(now.values())}
    if len(now) < len(config["applications"]):
        yield config


def _what(application: dict[str, Any]) -> str:
    """Tell what an application serves, wherever it does."""
    return json.dumps([application["import_path"], application.get("args") or {}], sort_keys=True)
