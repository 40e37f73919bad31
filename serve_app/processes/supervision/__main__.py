"""Runs a supervisor in the foreground: ``python -m serve_app.processes.supervision node|edge``."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
from importlib import metadata
from typing import NoReturn

import psutil

from deployments.log import line_handler
from serve_app.errors import ROOT, InstanceError
from serve_app.processes.installation import (
    edge_of,
    instance_of,
    releases_of,
    status_file_of,
    with_released_port,
)
from serve_app.processes.instance import Instance
from serve_app.processes.ports import add_port_base
from serve_app.processes.process_tags import CODE_TAG, INSTANCE_TAG, ROLE_TAG, Role
from serve_app.processes.supervision.managed_edge import ManagedEdge
from serve_app.processes.supervision.managed_process import ManagedProcess, Stopped, supervise
from serve_app.processes.supervision.managed_ray import ManagedRay
from serve_app.processes.supervision.supervisord import MODULE, running_supervisors
from serve_app.settings import Settings


def main() -> None:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("role", type=Role, choices=[Role.RAY_SUPERVISOR, Role.EDGE])
    add_port_base(parser)
    options = parser.parse_args()
    instance = instance_of(options.port_base)
    role: Role = options.role
    _restart_with_tags(instance, role)
    _log_to_stderr(role)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    _replace_predecessor(instance, role)
    os.umask(0o077)  # what it starts writes for this user alone
    try:
        instance.make_folders()  # before anything in them is believed
    except InstanceError as error:
        parser.exit(1, f"{error}\n")
    with contextlib.suppress(Stopped):
        supervise(_managed(role, options.port_base, instance), status_file_of(instance, role))


def _log_to_stderr(role: Role) -> None:
    handler = logging.StreamHandler(sys.stderr)
    is_json = Settings().log_format == "json"
    text = "%(asctime)s %(levelname)s %(message)s"
    line_handler(handler, text, is_json, component_name=f"supervisor_{role}")
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def _managed(role: Role, port_base: int | None, instance: Instance) -> ManagedProcess:
    if role == Role.EDGE:
        return ManagedEdge(edge_of(instance, port_base))
    return ManagedRay(
        lambda: with_released_port(instance_of(port_base)),
        releases_of(instance),
    )


def _restart_with_tags(instance: Instance, role: Role) -> None:
    """Execute this program again with the tags in its environment, which others read."""
    code = f"{ROOT} {metadata.version('greenwave')}"
    tags = {INSTANCE_TAG: instance.tag, ROLE_TAG: str(role), CODE_TAG: code}
    if any(os.environ.get(name) != value for name, value in tags.items()):
        os.execve(
            sys.executable, [sys.executable, "-P", "-m", MODULE, *sys.argv[1:]], os.environ | tags
        )


def _replace_predecessor(instance: Instance, role: Role) -> None:
    """Kill a supervisor whose supervisord has died; what it runs is adopted."""
    for process in running_supervisors(instance, role):
        with contextlib.suppress(psutil.Error):
            process.kill()


def _stop(number: int, frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    raise Stopped


if __name__ == "__main__":
    main()
