"""The command line: ``greenwave --help`` lists its commands."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from deployments.gateway.users import UserError
from deployments.store import StoreError
from serve_app.credentials.first_user import FILE_NAME, FIRST_USER, create_first_user
from serve_app.credentials.signing_key import InsecureSettingsError, signing_key
from serve_app.launcher import records_cli, users_cli
from serve_app.launcher.config import InvalidServeConfigError, read_config
from serve_app.launcher.deploy import DeployError, deploy, statuses, wait_until_running
from serve_app.launcher.edge import Edge, EdgeError, EdgePorts
from serve_app.launcher.first_calls import doubts, make_first_prediction
from serve_app.launcher.instance import Instance, InstanceError
from serve_app.launcher.ports import Ports, add_port_base
from serve_app.launcher.records_cli import RecordsTransferError
from serve_app.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_CONFIG = ROOT / "serve_config.yaml"
_GATEWAY = "serve_app.gateway:build"
_USER_ERRORS = (
    InvalidServeConfigError,
    InstanceError,
    DeployError,
    InsecureSettingsError,
    StoreError,
    UserError,
    RecordsTransferError,
)

console = Console(highlight=False, soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors that a user can meet end in one sentence and exit code 1."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except ValidationError as error:
        return _fail(f"{_variable(error)} is not valid: {error.errors()[0]['msg']}")
    except _USER_ERRORS as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return 130
    return 0


def _fail(sentence: str) -> int:
    Console(stderr=True, highlight=False, soft_wrap=True).print(sentence, style="red", markup=False)
    return 1


def _variable(error: ValidationError) -> str:
    """Name the first environment variable that :class:`Settings` refuses."""
    return "_".join(map(str, error.errors()[0]["loc"])).upper()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="greenwave", description="Start, stop and tend the services."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: object, help: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help, description=help)
        added.set_defaults(run=run)
        return added

    up = command("up", _up, "start Ray, deploy the config, wait until every application runs")
    down = command("down", _down, "stop what 'up' started")
    status = command("status", _status, "show the applications and their state")
    for each in (up, down, status):
        add_port_base(each, help="use ports from here on (500 of them) instead of the usual ones")
    up.add_argument("--no-edge", action="store_true", help="leave the documents' ports alone")
    up.add_argument("--timeout", type=float, default=180.0, help="seconds until giving up")
    check = command("check", _check, "check serve configs for unknown keys and wrong values")
    up.add_argument(
        "config", nargs="?", type=Path, default=DEFAULT_CONFIG, help="serve config to deploy"
    )
    check.add_argument(
        "config", nargs="*", type=Path, default=[DEFAULT_CONFIG], help="serve configs to check"
    )
    users_cli.add_commands(commands)
    records_cli.add_commands(commands)
    return parser


def _instance(options: argparse.Namespace) -> Instance:
    data_dir = Settings.of_instance(options.port_base).data_dir
    if options.port_base:
        temp_dir = Path(f"/tmp/greenwave-{options.port_base}")
        return Instance(data_dir, Ports.from_base(options.port_base), temp_dir).as_started()
    return Instance(data_dir).as_started()


def _edge(options: argparse.Namespace, instance: Instance) -> Edge:
    settings = Settings.of_instance(options.port_base)
    ports = EdgePorts.from_base(options.port_base) if options.port_base else EdgePorts()
    return Edge(instance, ports, settings.edge_host, settings.edge_certificate)


def _up(options: argparse.Namespace) -> None:
    started = time.monotonic()
    config = read_config(options.config)
    instance = _instance(options)
    has_gateway = any(each["import_path"] == _GATEWAY for each in config["applications"])
    if has_gateway:  # refuses unsafe settings before anything is started
        signing_key(Settings.of_instance(options.port_base))
    if instance.is_running():
        console.print("Ray is running already.")
    else:
        instance.stop()  # what is left of one that died
        instance = _place_front(options)
        console.print("Starting Ray ...")
        instance.start()
    config.setdefault("http_options", {})["port"] = instance.ports.front
    names = [application["name"] for application in config["applications"]]
    deploy(instance.dashboard_url, config)
    wait_until_running(instance.dashboard_url, names, options.timeout, _report)
    console.print(f"First prediction: {make_first_prediction(instance.front_url)}")
    edge = None if options.no_edge else _start_edge(options, instance)
    _print_summary(instance, config["applications"], edge, time.monotonic() - started)
    for doubt in doubts(instance.front_url, config["applications"]):
        console.print(f"\nBut {doubt}", style="yellow", markup=False)
    arguments = f' ARGS="{_same_ports(options).strip()}"' if options.port_base else ""
    console.print(f"\nStop it with: make down{arguments}")
    if has_gateway:
        _introduce_first_user(options)


def _place_front(options: argparse.Namespace) -> Instance:
    """Put Serve's front behind the edge, or into its place where there can be none."""
    instance = _instance(options)
    alone = replace(instance, ports=instance.ports.without_edge())
    if options.no_edge:
        return alone
    try:
        _edge(options, instance).check()
    except EdgeError as error:
        console.print(f"{error} Serve itself takes its port.", style="yellow", markup=False)
        options.no_edge = True
        return alone
    return instance


def _start_edge(options: argparse.Namespace, instance: Instance) -> Edge | None:
    edge = _edge(options, instance)
    try:
        edge.start()
    except EdgeError as error:
        console.print(f"{error} Everything else runs.", style="yellow", markup=False)
        return None
    return edge


def _introduce_first_user(options: argparse.Namespace) -> None:
    settings = Settings.of_instance(options.port_base)
    if credentials := create_first_user(settings):
        console.print(
            f"\nUser of the gateway: {credentials.username}, password: {credentials.password}\n"
            f"Shown only once, and kept in {settings.data_dir / FILE_NAME} for `make demo`\n"
            f"until you change it with: .venv/bin/greenwave users passwd{_same_ports(options)}"
            f" {FIRST_USER}",
            markup=False,
        )
    elif (kept := settings.data_dir / FILE_NAME).exists():
        console.print(f"\nThe first user of the gateway and its password are in {kept}")


def _report(name: str, status: str, seconds: float) -> None:
    colour = "green" if status == "RUNNING" else "yellow"
    console.print(f"  {name:<12} [{colour}]{status}[/{colour}] after {seconds:.1f} s")


def _print_summary(
    instance: Instance, applications: list[dict[str, str]], edge: Edge | None, seconds: float
) -> None:
    console.print(f"\n[bold green]Ready[/bold green] after {seconds:.0f} s.\n")
    base_url = edge.urls().get("inference", instance.front_url) if edge else instance.front_url
    for application in applications:
        url = base_url + application["route_prefix"]
        console.print(f"  {application['name']:<14} {url}")
    for name, url in edge.urls().items() if edge else ():
        console.print(f"  {name + ' edge':<14} {url}")
    console.print(f"  {'Serve itself':<14} {instance.front_url}")
    console.print(f"  {'dashboard':<14} {instance.dashboard_url}")
    console.print(f"  {'metrics':<14} http://127.0.0.1:{instance.ports.metrics}/metrics")


def _same_ports(options: argparse.Namespace) -> str:
    return f" --port-base {options.port_base}" if options.port_base else ""


def _down(options: argparse.Namespace) -> None:
    stopped = _instance(options).stop()
    console.print("Stopped." if stopped else f"Nothing was running {_where(options)}.")


def _where(options: argparse.Namespace) -> str:
    instance = _instance(options)
    return f"at {instance.base_url} with the data folder {instance.data_dir}"


def _status(options: argparse.Namespace) -> None:
    instance = _instance(options)
    if not instance.is_running():
        raise InstanceError(
            f"Greenwave is not running {_where(options)}. Start it with `make up`, or name the"
            " --port-base and the DATA_DIR of the one that runs."
        )
    for name, (status, message) in statuses(instance.dashboard_url).items():
        console.print(f"{name:<14} {status} {message}".rstrip(), markup=False)
    edge = _edge(options, instance)
    console.print(f"{'edge':<14} {'RUNNING' if edge.is_running() else 'STOPPED'}")
    for name, url in edge.urls().items():
        console.print(f"{name + ' edge':<14} {url}")
    console.print(f"{'Serve itself':<14} {instance.front_url}")


def _check(options: argparse.Namespace) -> None:
    for path in options.config:
        read_config(path)
        console.print(f"{os.path.relpath(path)}: valid")


if __name__ == "__main__":
    sys.exit(main())
