"""Deploying a serve config on a running cluster, and waiting until every application runs.

There are stages of a start of Ray, and steps of a rolling update: replicas that start all at once
leave no processor to those that serve.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import httpx

from serve_app.errors import DeployError
from serve_app.ray_dashboard import RayDashboard
from serve_app.rollout.capacity import INFERENCE
from serve_app.rollout.smoke_test import GATEWAY

RUNNING = "RUNNING"
# Not a status of Serve: the new version runs, and replicas of the old one have yet to end.
DRAINING = "DRAINING"
UNSETTLED = ("NOT_STARTED", "DEPLOYING")
# UNHEALTHY is not final: Serve reports it for a moment after the death of a replica.
_FAILED = "DEPLOY_FAILED"
_POLL_S = 0.2

Config = dict[str, Any]

Report = Callable[[list[str], list[str], float], None]
"""Receives the names of applications, those that do not run yet, and the seconds so far."""


def deploy(dashboard: RayDashboard, config: dict[str, Any]) -> None:
    """Send the config, as ``serve deploy`` does.

    Raises:
        DeployError: the cluster refuses it.
        httpx.HTTPError: the cluster does not answer.
    """
    answer = dashboard.deploy(config)
    if answer.is_error:
        raise DeployError(f"The cluster refused the config: {_last_line(answer.text)}")


def is_building(dashboard: RayDashboard) -> bool:
    """Return whether Serve does not know yet which deployments an application has."""
    found = dashboard.applications().values()
    return any(each["status"] in UNSETTLED and not each["deployments"] for each in found)


def is_deploying(dashboard: RayDashboard) -> bool:
    return any(each["status"] in UNSETTLED for each in dashboard.applications().values())


def failures(applications: dict[str, Any]) -> dict[str, str]:
    """Return why applications failed that Serve does not try to start any more, by name."""
    failed = {name: each for name, each in applications.items() if each["status"] == _FAILED}
    return {name: _last_line(message_of(each)) for name, each in failed.items()}


def wait_until_running(
    dashboard: RayDashboard,
    names: list[str],
    timeout_s: float,
    report: Report = lambda names, waiting, seconds: None,
    accepted: Collection[str] = (RUNNING,),
    check: Callable[[], None] = lambda: None,
) -> None:
    """Return when every named application is RUNNING, or has another accepted status.

    Args:
        report: called first, and whenever fewer applications than ever are waited for: one that
            runs is deployed again for more replicas.
        check: called again and again; raises an error if waiting is in vain.

    Raises:
        DeployError: an application failed, or the timeout passed.
    """
    started = time.monotonic()
    fewest = len(names) + 1
    while True:
        check()
        elapsed = time.monotonic() - started
        found = _poll(dashboard)
        now = {name: found.get(name, ("NOT_STARTED", "")) for name in names}
        for name, (status, message) in now.items():
            if status == _FAILED:
                raise DeployError(f"Application {name} is {status}: {_last_line(message)}")
        waiting = [name for name, (status, _) in now.items() if status not in accepted]
        if len(waiting) < fewest:
            fewest = len(waiting)
            report(names, waiting, elapsed)
        if not waiting:
            return
        if elapsed > timeout_s:
            slow = ", ".join(f"{name} ({now[name][0]})" for name in waiting)
            raise DeployError(f"Not running after {timeout_s:.0f} s: {slow}")
        time.sleep(_POLL_S)


def serves(dashboard: RayDashboard, config: dict[str, Any]) -> bool:
    """Return whether the cluster has received this config last, as far as its code is concerned."""
    found = dashboard.applications().items()
    deployed = {name: each.get("deployed_app_config") or {} for name, each in found}
    return all(
        _code(deployed.get(each["name"], {})) == _code(each) for each in config["applications"]
    )


def _code(application: dict[str, Any]) -> list[Any]:
    return [application.get(key) or {} for key in ("import_path", "args", "runtime_env")]


def message_of(application: dict[str, Any]) -> str:
    """Return the message of a failed deployment if there is one: it ends with the error."""
    deployments = application.get("deployments", {}).values()
    failed = (each["message"] for each in deployments if each["status"] in (_FAILED, "UNHEALTHY"))
    return str(next(filter(None, failed), application["message"]))


def _poll(dashboard: RayDashboard) -> dict[str, tuple[str, str]]:
    try:
        found = dashboard.applications()
    except httpx.HTTPError:
        return {}
    return {name: (_status(each), message_of(each)) for name, each in found.items()}


def _status(application: dict[str, Any]) -> str:
    deployments = application.get("deployments", {}).values()
    states = {replica["state"] for each in deployments for replica in each.get("replicas", [])}
    drains = application["status"] == "DEPLOYING" and states == {"RUNNING", "STOPPING"}
    return DRAINING if drains else str(application["status"])


def _last_line(message: str) -> str:
    """Return the last line with text; in a traceback, that is the error."""
    lines = (line.strip() for line in reversed(message.splitlines()))
    return next(filter(None, lines), "no reason given; see the Ray dashboard")


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
