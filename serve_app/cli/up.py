"""``greenwave up``."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from typing import Any

from serve_app.cli.deploy import (
    add_config,
    add_timeout,
    console,
    print_doubts,
    read,
    rollout_of,
)
from serve_app.cli.foreground import exit_on_sigterm, stay
from serve_app.cli.hints import make_command, same_folder
from serve_app.errors import CommandError
from serve_app.identity.inference_token import token_headers
from serve_app.processes import kept_edge
from serve_app.processes.edge import ROUTES, Edge, EdgeError, behind_edge
from serve_app.processes.installation import edge_of, instance_of, journal_of
from serve_app.processes.instance import START_TIMEOUT_S, Instance, InstanceError
from serve_app.processes.ports import add_port_base
from serve_app.processes.process_tags import Part
from serve_app.processes.redis_check import silent_stores
from serve_app.processes.supervision.supervisor import Supervisor
from serve_app.ray_token import asks_for_token
from serve_app.rollout import capacity
from serve_app.rollout.networks import network_at_root
from serve_app.rollout.smoke_test import make_first_prediction
from serve_app.settings import Settings

_GATEWAY = "serve_app.gateway:build"


def add_up(up: argparse.ArgumentParser) -> None:
    up.set_defaults(run=_up)
    add_port_base(up, help="use ports from here on (500 of them) instead of the usual ones")
    no_edge = "leave the documents' ports alone; Serve's own front then takes port 8000"
    up.add_argument("--no-edge", action="store_true", help=no_edge)
    foreground = "stay until SIGTERM or Ctrl-C, then stop everything: for a container"
    up.add_argument("--foreground", action="store_true", help=foreground)
    add_timeout(up)
    add_config(up)


def _up(options: argparse.Namespace) -> None:
    started = time.monotonic()
    if options.foreground:
        exit_on_sigterm()
    config = read(options)
    instance = instance_of(options.port_base)
    settings = Settings.of_instance(options.port_base)
    has_gateway = any(each["import_path"] == _GATEWAY for each in config["applications"])
    if has_gateway:  # refuses unsafe settings before anything is started
        from serve_app.identity.key_ring import check_keys  # the gateway's code: read by now

        check_keys(settings)
    token = token_headers(settings)
    if instance.is_running():
        console.print("Ray is running already.")
        _supervise(options, instance)
        rollout_of(options, instance).deploy(behind_edge(config, instance))
    else:
        instance = _start(options, config)
    config = behind_edge(config, instance)
    first = make_first_prediction(instance.front_url, token, network_at_root(config))
    console.print(f"First prediction: {first}", markup=False)
    edge = None if options.no_edge else _bring_up_edge(options, instance)
    _print_summary(instance, config["applications"], edge, time.monotonic() - started)
    print_doubts(instance, config)
    if has_gateway:
        _introduce_first_user(options)
    if options.foreground:
        stay(instance, Supervisor(instance, options.port_base))
    else:
        print_stop(options)


def _start(options: argparse.Namespace, config: dict[str, Any]) -> Instance:
    """Start Ray by its keeper; who loses patience leaves nothing behind."""
    _refuse_what_does_not_fit(config)
    if silent := list(silent_stores(os.environ)):
        raise CommandError("\n".join([*silent, "Nothing has been started."]))
    instance = instance_of(options.port_base)
    foreign = Supervisor(instance, options.port_base).is_foreign()
    try:
        if not foreign:
            instance.stop()  # what is left of one that died
        for part in (Part.NODE, Part.EDGE):
            journal_of(instance, part).clear()
        instance = place_front(options)
        config = behind_edge(config, instance)
        console.print("Starting Ray ...")
        rollout = rollout_of(options, instance)
        rollout.announce(config)
        _supervise(options, instance)
        _wait_for_ray(instance)
        rollout.finish_start(config)
    except (InstanceError, KeyboardInterrupt):
        if not foreign:
            instance.stop()
        raise
    return instance


def _refuse_what_does_not_fit(config: dict[str, Any]) -> None:
    machine = [capacity.this_machine()]
    if sentence := capacity.misfit(config, machine):
        raise CommandError(f"{sentence} Nothing has been started.")
    if sentence := capacity.limit(config, machine):
        console.print(sentence, style="yellow", markup=False)


def place_front(options: argparse.Namespace) -> Instance:
    """Put Serve's front behind the edge, or into its place where there can be none."""
    instance = instance_of(options.port_base)
    edge = edge_of(instance, options.port_base)
    kept_edge.take_down(edge)
    try:
        if not options.no_edge:
            edge.check()
            return instance
    except EdgeError as error:
        console.print(f"{error} Serve itself takes its port.", style="yellow", markup=False)
        options.no_edge = True
    return replace(instance, ports=instance.ports.without_edge())


def _supervise(options: argparse.Namespace, instance: Instance) -> None:
    supervisor = Supervisor(instance, options.port_base)
    if not supervisor.is_running() and not supervisor.is_foreign():
        supervisor.start()


def _wait_for_ray(instance: Instance) -> None:
    journal = journal_of(instance, Part.NODE)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not instance.is_running():
        trouble = journal.read().trouble
        if trouble or time.monotonic() > deadline:
            raise InstanceError(trouble or f"Ray did not start; see {instance.data_dir / 'logs'}.")
        time.sleep(0.1)


def _bring_up_edge(options: argparse.Namespace, instance: Instance) -> Edge | None:
    edge = edge_of(instance, options.port_base)
    try:
        kept_edge.bring_up(edge, journal_of(instance, Part.EDGE))
    except EdgeError as error:
        console.print(f"{error} Everything else runs.", style="yellow", markup=False)
        return None
    return edge


def _print_summary(
    instance: Instance, applications: list[dict[str, str]], edge: Edge | None, seconds: float
) -> None:
    console.print(f"\n[bold green]Ready[/bold green] after {seconds:.0f} s.\n")
    base_url = edge.urls().get("inference", instance.front_url) if edge else instance.front_url
    for application in applications:
        url = base_url + application["route_prefix"]
        console.print(f"  {application['name']:<14} {url}")
    served = {each["route_prefix"] for each in applications}
    for name, url in edge.urls().items() if edge else ():
        if ROUTES[name] & served:
            console.print(f"  {name + ' edge':<14} {url}")
    console.print(f"  {'Serve itself':<14} {instance.front_url}")
    asks = "  (asks for what `.venv/bin/ray get-auth-token` prints)" if asks_for_token() else ""
    console.print(f"  {'dashboard':<14} {instance.dashboard_url}{asks}")
    console.print(f"  {'metrics':<14} http://127.0.0.1:{instance.ports.metrics}/metrics")


def print_stop(options: argparse.Namespace) -> None:
    console.print(f"\nStop it with: {make_command('down', options.port_base)}", markup=False)


def _introduce_first_user(options: argparse.Namespace) -> None:
    from serve_app.cli.operator_audit import note
    from serve_app.identity.first_user import FILE_NAME, FIRST_USER, create_first_user

    settings = Settings.of_instance(options.port_base)
    demo = make_command("demo", options.port_base)
    if credentials := create_first_user(settings):
        note(settings, "user added", credentials.username)
        console.print(
            f"\nUser of the gateway: {credentials.username}, password: {credentials.password}\n"
            f"Shown only once, and kept in {settings.data_dir / FILE_NAME} for `{demo}`\n"
            f"until you change it with: {same_folder()}.venv/bin/greenwave users passwd"
            f"{_same_ports(options)} {FIRST_USER}",
            markup=False,
        )
    elif (kept := settings.data_dir / FILE_NAME).exists():
        console.print(f"\nThe first user of the gateway and its password are in {kept}")


def _same_ports(options: argparse.Namespace) -> str:
    return f" --port-base {options.port_base}" if options.port_base else ""
