"""The config that a cluster serves with soonest."""

from __future__ import annotations

import copy
import json
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


def _what(application: dict[str, Any]) -> str:
    """Tell what an application serves, wherever it does."""
    return json.dumps([application["import_path"], application.get("args") or {}], sort_keys=True)
