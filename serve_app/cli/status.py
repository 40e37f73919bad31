"""``greenwave status`` and ``greenwave down``."""

from __future__ import annotations

import argparse
import shutil
import time

from rich.console import Console

from serve_app.cli.hints import make_command
from serve_app.errors import InstanceError
from serve_app.processes.installation import edge_of, instance_of, status_file_of
from serve_app.processes.instance import Instance
from serve_app.processes.ports import add_port_base
from serve_app.processes.process_tags import Role
from serve_app.processes.supervision.supervisord import Supervisord, running_supervisors
from serve_app.rollout.deploy import RUNNING, routes, statuses
from serve_app.rollout.smoke_test import failing_checks

console = Console(highlight=False, soft_wrap=True)


def add_down(down: argparse.ArgumentParser) -> None:
    add_port_base(down)
    down.set_defaults(run=_down)


def add_status(status: argparse.ArgumentParser) -> None:
    add_port_base(status)
    status.set_defaults(run=_status)


def _down(options: argparse.Namespace) -> None:
    instance = instance_of(options.port_base)
    if Supervisord(instance, options.port_base).is_replaced():
        raise InstanceError(
            "systemd supervises this instance. Stop its units, greenwave and greenwave-edge."
        )
    stopped = instance.stop()
    if instance.temp_dir:
        shutil.rmtree(instance.temp_dir, ignore_errors=True)
    console.print("Stopped." if stopped else f"Nothing was running {_place(options)}.")


def _place(options: argparse.Namespace) -> str:
    instance = instance_of(options.port_base)
    return f"at {instance.base_url} with the data folder {instance.data_dir}"


def running(options: argparse.Namespace) -> Instance:
    """Return the running instance.

    Raises:
        InstanceError: it does not run, or Ray is restarting.
    """
    instance = instance_of(options.port_base)
    if instance.is_running():
        return instance
    error = status_file_of(instance, Role.RAY_SUPERVISOR).read().error
    if instance.processes(Role.RAY_SUPERVISOR):
        raise InstanceError(f"Ray is restarting. {error or ''}".strip())
    raise InstanceError(
        f"Greenwave is not running {_place(options)}. Start it with"
        f" `{make_command('up', options.port_base)}`, or name the"
        " --port-base and the DATA_DIR of the one that runs."
    )


def _status(options: argparse.Namespace) -> None:
    instance = running(options)
    prefixes = routes(instance.dashboard)
    for name, (status, message) in statuses(instance.dashboard).items():
        url = instance.front_url + prefixes.get(name, "").rstrip("/")
        failing = failing_checks(url) if name in prefixes else []
        words = [f"{name:<14} {status}", message, *(f"(not ready: {each})" for each in failing)]
        console.print(" ".join(filter(None, words)), markup=False)
    edge = edge_of(instance, options.port_base)
    up = make_command("up", options.port_base)
    _print_process("edge", edge.is_running(), instance, Role.EDGE, up)
    _print_process("Ray", True, instance, Role.RAY_SUPERVISOR, up)
    supervisord = Supervisord(instance, options.port_base)
    if not supervisord.is_running() and not supervisord.is_replaced():
        console.print(f"{'supervisord':<14} STOPPED (start it with `{up}`)", markup=False)
    for name, url in edge.urls().items():
        console.print(f"{name + ' edge':<14} {url}")
    console.print(f"{'Serve itself':<14} {instance.front_url}")


def _print_process(name: str, runs: bool, instance: Instance, role: Role, up: str) -> None:
    status = status_file_of(instance, role).read()
    words = [f"{name:<14} {RUNNING if runs else 'STOPPED'}"]
    if runs and status.since:
        words.append(f"since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(status.since))},")
        words.append(f"restarted {status.restarts} times")
    if status.error:
        words.append(f"(last error: {status.error})")
    if not running_supervisors(instance, role):
        words.append(f"(not supervised: `{up}`)")
    console.print(" ".join(words), markup=False)
