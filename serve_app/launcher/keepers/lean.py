"""The config that a cluster serves with soonest."""

from __future__ import annotations

import copy
from typing import Any


def lean(config: dict[str, Any]) -> dict[str, Any]:
    """Return the config with one replica of each deployment.

    On few cores, twice the replicas take twice the time to start, and one of each serves already.
    Adding the others restarts none.
    """
    config = copy.deepcopy(config)
    for application in config["applications"]:
        for deployment in application.get("deployments", []):
            if isinstance(deployment.get("num_replicas"), int):
                deployment["num_replicas"] = min(1, deployment["num_replicas"])
            if scaling := deployment.get("autoscaling_config"):
                scaling["min_replicas"] = min(1, scaling.get("min_replicas", 1))
                scaling.pop("initial_replicas", None)
    return config
