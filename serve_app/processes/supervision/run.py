"""Runs the supervisor: ``python -m serve_app.processes.supervision.run``."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import threading
from collections.abc import Mapping
from logging.handlers import RotatingFileHandler
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn

import psutil

from deployments.log import line_handler
from serve_app.errors import InstanceError
from serve_app.processes.installation import (
    edge_of,
    instance_of,
    releases_of,
    status_file_of,
    with_released_port,
)
from serve_app.processes.instance import Instance
from serve_app.processes.ports import add_port_base
from serve_app.processes.process_tags import Role
from serve_app.processes.status_file import StatusFile
from serve_app.processes.supervision.guard import Stopped, events_and_signals, next_event
from serve_app.processes.supervision.managed_edge import ManagedEdge
from serve_app.processes.supervision.managed_process import ManagedProcess, supervise
from serve_app.processes.supervision.managed_ray import ManagedRay
from serve_app.processes.supervision.supervisor import MODULE, RUN, Supervisor
from serve_app.settings import Settings

LOG_BYTES = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}.{RUN}", description=__doc__)
    add_port_base(parser)
    options = parser.parse_args()
    instance = instance_of(options.port_base)
    supervisor = Supervisor(instance, options.port_base)
    events = events_and_signals()
    os.umask(0o077)  # what it starts writes for this user alone
    with contextlib.suppress(Stopped):
        try:
            instance.make_folders()  # before anything in them is believed
        except InstanceError as error:
            parser.exit(1, f"{error}\n")
        for predecessor in supervisor.running(RUN):  # whose guard has died; what it runs is adopted
            with contextlib.suppress(psutil.Error):
                predecessor.kill()
        _log_to(supervisor.logs / "supervisor.log")
        run(_managed(instance, options.port_base), events)


def run(managed: Mapping[StatusFile, ManagedProcess], events: SimpleQueue[Any]) -> NoReturn:
    """Supervise processes, each in a thread.

    Args:
        managed: by the file for the status; the last is stopped first.
        events: gets the signals.

    Raises:
        Stopped: at a signal; the processes have been stopped.
        Exception: what a thread has raised, which is a defect.
    """
    stopping = threading.Event()

    def keep(process: ManagedProcess, status_file: StatusFile) -> None:
        try:
            supervise(process, status_file, stopping)
        except Exception as error:
            events.put(error)

    for status_file, process in managed.items():
        threading.Thread(target=keep, args=(process, status_file), daemon=True).start()
    event = next_event(events)
    if isinstance(event, Stopped):
        stopping.set()
        for process in reversed([*managed.values()]):
            process.stop()
    raise event


def _managed(instance: Instance, port_base: int | None) -> dict[StatusFile, ManagedProcess]:
    ray = ManagedRay(lambda: with_released_port(instance_of(port_base)), releases_of(instance))
    return {
        status_file_of(instance, Role.RAY): ray,
        status_file_of(instance, Role.EDGE): ManagedEdge(edge_of(instance)),
    }


def _log_to(path: Path) -> None:
    handler = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=1)
    is_json = Settings().log_format == "json"
    text = "%(asctime)s %(levelname)s %(message)s"
    line_handler(handler, text, is_json, component_name="supervisor")
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


if __name__ == "__main__":
    main()
