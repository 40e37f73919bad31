"""``greenwave deploy``, ``rollback`` and ``check``, and what ``up`` shares with them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from difflib import unified_diff
from pathlib import Path
from typing import Any

import yaml

from serve_app.cli.arguments import Run, add_config, add_json, add_system, add_timeout
from serve_app.cli.folder import default_config
from serve_app.cli.hints import greenwave_command
from serve_app.cli.status import cluster_of, running
from serve_app.cli.terminal import results, warn, write_json
from serve_app.errors import CommandError
from serve_app.processes.edge import behind_edge
from serve_app.processes.installation import edge_of, releases_of, releases_of_cluster
from serve_app.processes.instance import Instance
from serve_app.rollout.capacity import describe_needs
from serve_app.rollout.rollout import Rollout
from serve_app.rollout.smoke_test import find_problems


def add_deploy(deploy: argparse.ArgumentParser) -> None:
    add_config(deploy)
    dry_run = "print what would change, and change nothing"
    deploy.add_argument("--dry-run", action="store_true", help=dry_run)
    _add_common(deploy, _deploy)


def add_rollback(rollback: argparse.ArgumentParser) -> None:
    _add_common(rollback, _rollback)


def add_check(check: argparse.ArgumentParser) -> None:
    help = "serve configs to check"
    check.add_argument("config", nargs="*", type=Path, default=[default_config()], help=help)
    elsewhere = "accept a config whose model files are missing or do not fit on this machine"
    check.add_argument("--elsewhere", action="store_true", help=elsewhere)
    add_json(check)
    check.set_defaults(run=_check)


def _add_common(command: argparse.ArgumentParser, run: Run) -> None:
    add_system(command)
    add_timeout(command)
    command.set_defaults(run=run)


def _deploy(options: argparse.Namespace) -> None:
    config = read(options)
    instance = None if options.cluster else running(options)
    if instance:
        config = behind_edge(config, instance)
    rollout = rollout_of(options, instance)
    if options.dry_run:
        _print_changes(*rollout.plan(config))
        return
    if rollout.deploy(config):
        results.print("Deployed.", style="bold green", end=" ")
        where = f" --cluster {options.cluster}" if options.cluster else ""
        undo = greenwave_command(f"rollback{where}", options.port_base)
        results.print(f"Undo it with `{undo}`.")
    else:
        results.print("Nothing has changed: config and code are those of the current release.")
    if instance:
        if edge_of(instance).lacks_cities():
            command = greenwave_command("up", options.port_base)
            results.print(f"`{command}` with this config leads to its new paths without a detour.")
        print_problems(instance, config)


def _print_changes(current: dict[str, Any] | None, planned: dict[str, Any]) -> None:
    before, after = map(_as_lines, (current, planned))
    changes = [*unified_diff(before, after, "current release", "new release", lineterm="")]
    sys.stdout.write("\n".join(changes or ["Nothing would change."]) + "\n")


def _as_lines(config: dict[str, Any] | None) -> list[str]:
    if config is None:
        return []
    without_aliases = json.loads(json.dumps(config))  # as a release is read
    return yaml.safe_dump(without_aliases, sort_keys=False).splitlines()


def _rollback(options: argparse.Namespace) -> None:
    instance = None if options.cluster else running(options)
    rollout_of(options, instance).roll_back()
    results.print("Rolled back.", style="bold green")


def _check(options: argparse.Namespace) -> None:
    from serve_app.rollout.config import InvalidServeConfigError, read_config
    from serve_app.rollout.model_files import find_file_faults

    checked = []
    for path in options.config:
        name = os.path.relpath(path)
        needs, not_here, faults = "", [], []
        try:
            config = read_config(path)
            needs = describe_needs(config)
            not_here = list(find_file_faults(config))  # the machine that serves it may have it
        except InvalidServeConfigError as error:
            faults = error.faults
        except OSError as error:
            faults = [str(error.strerror)]
        found = {"needs": needs or None, "not_servable_here": not_here, "faults": faults}
        checked.append({"config": name, **found})
        if options.json:
            continue
        if needs:
            results.print(f"{name}: valid, {needs}")
        for fault in faults:
            warn(f"{name}: {fault}")
        for fault in not_here:
            warn(f"  It cannot be served here: {fault}")
    if options.json:
        write_json(checked)
    if any(each["faults"] for each in checked):
        raise CommandError("Not every config is valid.")
    if not options.elsewhere and any(each["not_servable_here"] for each in checked):
        raise CommandError(
            "Not every config can be served here."
            " If another machine has the files, add --elsewhere."
        )


def read(options: argparse.Namespace, *, policies: bool = True) -> dict[str, Any]:
    """Read the config of a command.

    Args:
        policies: whether the files of policies must be good.

    Raises:
        CommandError: it could not be served.
    """
    # these import the services
    from serve_app.rollout.config import read_config
    from serve_app.rollout.model_files import find_file_faults

    config = read_config(options.config)
    if faults := list(find_file_faults(config, policies=policies)):
        raise CommandError("\n".join(faults))
    return config


def rollout_of(options: argparse.Namespace, instance: Instance | None) -> Rollout:
    """Return the rollout of an instance, or of a cluster, with its progress on the terminal."""
    if instance:
        dashboard, releases = instance.dashboard, releases_of(instance)
        front: int | None = instance.ports.front
    else:
        dashboard, releases = cluster_of(options), releases_of_cluster(options.cluster)
        front = None
    return Rollout(dashboard, front, releases, options.timeout, _report, warn)


def _report(names: list[str], waiting: list[str], seconds: float) -> None:
    count = f"{len(names) - len(waiting)} of {len(names)} applications run this version"
    others = f"; waiting for {', '.join(waiting)}" if waiting else ""
    results.print(f"  {count} after {seconds:.0f} s{others}")


def print_problems(instance: Instance, config: dict[str, Any]) -> None:
    """Print what does not run as the config asks."""
    for problem in find_problems(instance.front_url, config["applications"]):
        warn(f"\nBut {problem}")
