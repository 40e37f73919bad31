"""``greenwave status`` and ``greenwave down``."""

from __future__ import annotations

import argparse
import time

from rich.console import Console

from serve_app.cli.hints import make_command
from serve_app.processes.installation import edge_of, instance_of, journal_of
from serve_app.processes.instance import Instance, InstanceError
from serve_app.processes.ports import add_port_base
from serve_app.processes.process_tags import Part
from serve_app.processes.supervision.supervisor import Supervisor, living_keepers
from serve_app.rollout.deploy import RUNNING, routes, statuses
from serve_app.rollout.smoke_test import lacks

console = Console(highlight=False, soft_wrap=True)


def add_down(down: argparse.ArgumentParser) -> None:
    add_port_base(down)
    down.set_defaults(run=_down)


def add_status(status: argparse.ArgumentParser) -> None:
    add_port_base(status)
    status.set_defaults(run=_status)


def _down(options: argparse.Namespace) -> None:
    instance = instance_of(options.port_base)
    if Supervisor(instance, options.port_base).is_foreign():
        raise InstanceError("systemd keeps it: stop its units, greenwave and greenwave-edge.")
    stopped = instance.stop()
    console.print("Stopped." if stopped else f"Nothing was running {_where(options)}.")


def _where(options: argparse.Namespace) -> str:
    instance = instance_of(options.port_base)
    return f"at {instance.base_url} with the data folder {instance.data_dir}"


def running(options: argparse.Namespace) -> Instance:
    """Find the instance that runs.

    Raises:
        InstanceError: it does not, or not at this moment.
    """
    instance = instance_of(options.port_base)
    if instance.is_running():
        return instance
    trouble = journal_of(instance, Part.NODE).read().trouble
    if instance.processes(Part.NODE):
        raise InstanceError(f"Ray is being started again. {trouble or ''}".strip())
    raise InstanceError(
        f"Greenwave is not running {_where(options)}. Start it with"
        f" `{make_command('up', options.port_base)}`, or name the"
        " --port-base and the DATA_DIR of the one that runs."
    )


def _status(options: argparse.Namespace) -> None:
    instance = running(options)
    prefixes = routes(instance.dashboard_url)
    for name, (status, message) in statuses(instance.dashboard_url).items():
        lacking = lacks(instance.front_url + prefixes[name].rstrip("/")) if name in prefixes else ()
        words = [f"{name:<14} {status}", message, *(f"(not ready: {each})" for each in lacking)]
        console.print(" ".join(filter(None, words)), markup=False)
    edge = edge_of(instance, options.port_base)
    up = make_command("up", options.port_base)
    _print_life("edge", edge.is_running(), instance, Part.EDGE, up)
    _print_life("Ray", True, instance, Part.NODE, up)
    supervisor = Supervisor(instance, options.port_base)
    if not supervisor.is_running() and not supervisor.is_foreign():
        said = f"no supervisor: a keeper that dies stays dead; `{up}` starts one"
        console.print(said, markup=False)
    for name, url in edge.urls().items():
        console.print(f"{name + ' edge':<14} {url}")
    console.print(f"{'Serve itself':<14} {instance.front_url}")


def _print_life(name: str, runs: bool, instance: Instance, part: Part, up: str) -> None:
    entry = journal_of(instance, part).read()
    words = [f"{name:<14} {RUNNING if runs else 'STOPPED'}"]
    if runs and entry.since:
        words.append(f"since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(entry.since))},")
        words.append(f"restarted {entry.restarts} times")
    if entry.trouble:
        words.append(f"(last trouble: {entry.trouble})")
    if not living_keepers(instance, part):
        words.append(f"(nothing keeps it: `{up}`)")
    console.print(" ".join(words), markup=False)
