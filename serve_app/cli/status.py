"""``greenwave status`` and ``greenwave down``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from serve_app.cli.arguments import add_json, add_system
from serve_app.cli.hints import greenwave_command
from serve_app.cli.terminal import results, write_json
from serve_app.errors import InstanceError
from serve_app.processes.installation import edge_of, instance_of, status_file_of
from serve_app.processes.instance import Instance
from serve_app.processes.ports import add_port_base, is_free
from serve_app.processes.process_tags import Role
from serve_app.processes.status_file import StatusFile
from serve_app.processes.supervision.supervisor import RUN, Supervisor
from serve_app.ray_dashboard import RayDashboard
from serve_app.rollout.deploy import RUNNING, message_of
from serve_app.rollout.smoke_test import failing_checks

Found = dict[str, Any]


def add_down(down: argparse.ArgumentParser) -> None:
    add_port_base(down)
    down.set_defaults(run=_down)


def add_status(status: argparse.ArgumentParser) -> None:
    add_system(status)
    add_json(status)
    status.set_defaults(run=_status)


def _down(options: argparse.Namespace) -> None:
    instance = instance_of(options.port_base)
    stopped = instance.stop()
    if stopped or is_free(instance.ports.http):  # or a system with another data folder runs
        instance.remove_runtime_files()
    hint = " A system that was started with another DATA_DIR is stopped with the same one."
    results.print("Stopped." if stopped else f"Nothing was running {_place(instance)}.{hint}")


def _place(instance: Instance) -> str:
    return f"at {instance.base_url} with the data folder {instance.data_dir}"


def running(options: argparse.Namespace) -> Instance:
    """Return the running instance.

    Raises:
        InstanceError: it does not run, or Ray is restarting.
    """
    instance = instance_of(options.port_base)
    if instance.is_running():
        return instance
    ray = status_file_of(instance, Role.RAY).read()
    if instance.processes(Role.SUPERVISOR):
        if ray.since:  # its end has not been recorded
            raise InstanceError("Ray does not answer: it is being stopped, or has just ended.")
        starting = "restarting" if ray.restarts else "starting"
        raise InstanceError(f"Ray is {starting}. {ray.error or ''}".strip())
    raise InstanceError(
        f"Greenwave is not running {_place(instance)}. Start it with"
        f" `{greenwave_command('up', options.port_base)}`, or name the"
        " --port-base and the DATA_DIR of the one that runs."
    )


def cluster_of(options: argparse.Namespace) -> RayDashboard:
    """Return the cluster that a command names."""
    return RayDashboard(options.cluster.rstrip("/"))


def _status(options: argparse.Namespace) -> None:
    if options.cluster:
        found: Found = {"applications": [*_applications(cluster_of(options))]}
    else:
        found = _of_instance(options)
    if options.json:
        write_json(found)
    else:
        _print(found, greenwave_command("up", options.port_base))
    parts = found["applications"] + found.get("processes", [])
    wrong = [each["name"] for each in parts if each["status"] != RUNNING or each.get("not_ready")]
    if not found.get("supervisor", True):
        wrong.append(_missing_part(found))
    if wrong:  # which scripts see in the exit code
        raise InstanceError(f"Not everything runs: {', '.join(wrong)}.")


def _of_instance(options: argparse.Namespace) -> Found:
    instance = running(options)
    edge = edge_of(instance)
    supervisor = Supervisor(instance, options.port_base)
    supervised = bool(supervisor.running(RUN))
    processes = [_process("Ray", True, status_file_of(instance, Role.RAY), supervised)]
    if instance.has_edge:
        status_file = status_file_of(instance, Role.EDGE)
        processes.insert(0, _process("edge", edge.is_running(), status_file, supervised))
    urls = {f"{name} edge": url for name, url in edge.urls().items()}
    return {
        "applications": [*_applications(instance.dashboard, instance.front_url)],
        "supervisor": supervisor.is_guarded(),
        "processes": processes,
        "front": edge.serve_front().missing(),
        "urls": urls | {"Serve itself": instance.front_url},
    }


def _missing_part(found: Found) -> str:
    """Return which part does not run: the supervisor, or the guard that restarts it."""
    return "guard" if found["processes"][0]["supervised"] else "supervisor"


def _print(found: Found, up: str) -> None:
    for each in found["applications"]:
        failing = [f"(not ready: {reason})" for reason in each["not_ready"]]
        words = [f"{each['name']:<14} {each['status']}", each["message"], *failing]
        results.print(" ".join(filter(None, words)))
    for each in found.get("processes", ()):
        results.print(_in_words(each, up))
    if not found.get("supervisor", True):
        results.print(f"{_missing_part(found):<14} STOPPED (start it with `{up}`)")
    for sentence in found.get("front", ()):
        results.print(f"{'front':<14} {sentence}")
    for name, url in found.get("urls", {}).items():
        results.print(f"{name:<14} {url}")


def _applications(dashboard: RayDashboard, front: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield each application; whether it is ready is asked at Serve's front only."""
    for name, each in dashboard.applications().items():
        prefix = each.get("route_prefix")
        failing = failing_checks(front + prefix.rstrip("/")) if front and prefix else []
        message = message_of(each)
        yield {"name": name, "status": each["status"], "message": message, "not_ready": failing}


def _process(name: str, runs: bool, status_file: StatusFile, supervised: bool) -> dict[str, Any]:
    return {
        "name": name,
        "status": RUNNING if runs else "STOPPED",
        **asdict(status_file.read()),
        "supervised": supervised,
    }


def _in_words(process: dict[str, Any], up: str) -> str:
    words = [f"{process['name']:<14} {process['status']}"]
    if process["status"] == RUNNING and process["since"]:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(process["since"]))
        words += [f"since {since},", f"restarted {process['restarts']} times"]
    if process["error"]:
        words.append(f"(last error: {process['error']})")
    if not process["supervised"]:
        words.append(f"(not supervised: `{up}`)")
    return " ".join(words)
