"""Puts a serve config on a running cluster and waits until every application answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import httpx

from serve_app import ray_dashboard

RUNNING = "RUNNING"
# Serve has no word for it: the new version runs, and replicas of the old one have yet to end.
DRAINING = "DRAINING"
UNSETTLED = ("NOT_STARTED", "DEPLOYING")
# UNHEALTHY is not final: Serve says so for a moment when it has found a replica dead.
_FAILED = "DEPLOY_FAILED"


class DeployError(RuntimeError):
    """A config could not be kept or was refused, or an application failed or took too long."""


def deploy(dashboard_url: str, config: dict[str, Any]) -> None:
    """Send the config, as ``serve deploy`` does."""
    answer = ray_dashboard.put(dashboard_url, ray_dashboard.APPLICATIONS, config, timeout_s=60.0)
    if answer.is_error:
        raise DeployError(f"The cluster refused the config: {_reason(answer.text)}")


def statuses(dashboard_url: str) -> dict[str, tuple[str, str]]:
    """Return the status and the message of every application; its deployments know more."""
    applications = _applications(dashboard_url)
    return {name: (each["status"], _message(each)) for name, each in applications.items()}


def routes(dashboard_url: str) -> dict[str, str]:
    """Return the route prefix of every application that has one."""
    applications = _applications(dashboard_url)
    prefixes = {name: each.get("route_prefix") for name, each in applications.items()}
    return {name: prefix for name, prefix in prefixes.items() if prefix}


def is_building(dashboard_url: str) -> bool:
    """Return whether an application has yet to be imported: it has no deployments then."""
    return any(
        each["status"] in UNSETTLED and not each.get("deployments")
        for each in _applications(dashboard_url).values()
    )


def is_deploying(dashboard_url: str) -> bool:
    return any(status in UNSETTLED for status, _ in statuses(dashboard_url).values())


def wait_until_running(
    dashboard_url: str,
    names: list[str],
    timeout_s: float,
    report: Callable[[str, str, float], None] = lambda name, status, seconds: None,
    enough: Collection[str] = (RUNNING,),
) -> None:
    """Return when every named application is RUNNING, or in another status that is enough.

    Args:
        report: called with name, status and seconds since the start at each change of status.

    Raises:
        DeployError: an application failed, or the time is over.
    """
    started = time.monotonic()
    seen: dict[str, str] = {}
    while True:
        elapsed = time.monotonic() - started
        now = _poll(dashboard_url)
        for name in names:
            status, message = now.get(name, ("NOT_STARTED", ""))
            if seen.get(name) != status:
                seen[name] = status
                report(name, status, elapsed)
            if status == _FAILED:
                raise DeployError(f"Application {name} is {status}: {_reason(message)}")
        if all(status in enough for status in seen.values()):
            return
        if elapsed > timeout_s:
            slow = [name for name, status in seen.items() if status not in enough]
            raise DeployError(f"Not running after {timeout_s:.0f} s: {', '.join(slow)}")
        time.sleep(0.2)


def serves(dashboard_url: str, config: dict[str, Any]) -> bool:
    """Return whether what the cluster was sent last is this config, as far as code sees it."""
    deployed = _applications(dashboard_url)
    return all(
        name in deployed and _code(deployed[name].get("deployed_app_config") or {}) == _code(each)
        for each in config["applications"]
        for name in [each["name"]]
    )


def _applications(dashboard_url: str) -> dict[str, Any]:
    answer = ray_dashboard.get(dashboard_url, ray_dashboard.APPLICATIONS, timeout_s=10.0)
    applications: dict[str, Any] = answer.raise_for_status().json()["applications"]
    return applications


def _code(application: dict[str, Any]) -> list[Any]:
    return [application.get(key) or {} for key in ("import_path", "args", "runtime_env")]


def _message(application: dict[str, Any]) -> str:
    """Return the deployment's own message where there is one: it ends with the error."""
    deployments = application.get("deployments", {}).values()
    failed = (each["message"] for each in deployments if each["status"] in (_FAILED, "UNHEALTHY"))
    return str(next(filter(None, failed), application["message"]))


def _poll(dashboard_url: str) -> dict[str, tuple[str, str]]:
    try:
        applications = _applications(dashboard_url)
    except httpx.HTTPError:
        return {}
    return {name: (_status(each), _message(each)) for name, each in applications.items()}


def _status(application: dict[str, Any]) -> str:
    deployments = application.get("deployments", {}).values()
    states = {replica["state"] for each in deployments for replica in each.get("replicas", [])}
    drains = application["status"] == "DEPLOYING" and states == {"RUNNING", "STOPPING"}
    return DRAINING if drains else str(application["status"])


def _reason(message: str) -> str:
    """Return the last line that says something; in a traceback, that is the error itself."""

    def lines() -> Iterator[str]:
        yield from (line.strip() for line in reversed(message.splitlines()) if line.strip())

    return next(lines(), "no reason given; see the Ray dashboard")
