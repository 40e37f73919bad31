"""Runs a keeper in the foreground: ``python -m serve_app.processes.supervision node|edge``."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
from typing import NoReturn

import psutil

from deployments.log import line_handler
from serve_app.processes.installation import (
    as_released,
    edge_of,
    instance_of,
    journal_of,
    releases_of,
)
from serve_app.processes.instance import Instance
from serve_app.processes.ports import add_port_base
from serve_app.processes.process_tags import MARK, PART, Part
from serve_app.processes.supervision.edge import KeptEdge
from serve_app.processes.supervision.node import Node
from serve_app.processes.supervision.ray_sessions import Sessions
from serve_app.processes.supervision.restarts import Charge, Stopped, keep
from serve_app.processes.supervision.supervisor import MODULE, living_keepers
from serve_app.settings import Settings


def main() -> None:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("part", type=Part, choices=[Part.NODE, Part.EDGE])
    add_port_base(parser)
    options = parser.parse_args()
    instance = instance_of(options.port_base)
    part: Part = options.part
    _bear_marks(instance, part)
    _log_to_stderr(part)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    _take_over(instance, part)
    instance.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(Stopped):
        keep(_charge(part, options.port_base, instance), journal_of(instance, part))


def _log_to_stderr(part: Part) -> None:
    handler = logging.StreamHandler(sys.stderr)
    is_json = Settings().log_format == "json"
    text = "%(asctime)s %(levelname)s %(message)s"
    line_handler(handler, text, is_json, component_name=f"keeper_{part}")
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def _charge(part: Part, port_base: int | None, instance: Instance) -> Charge:
    if part == Part.EDGE:
        return KeptEdge(edge_of(instance, port_base))
    sessions = Sessions(instance.data_dir / "ray-sessions", instance.ray_dir)
    return Node(lambda: as_released(instance_of(port_base)), releases_of(instance), sessions)


def _bear_marks(instance: Instance, part: Part) -> None:
    """Begin anew with the marks in the environment, which others read from outside."""
    marks = {MARK: instance.mark, PART: str(part)}
    if any(os.environ.get(name) != value for name, value in marks.items()):
        os.execve(sys.executable, [sys.executable, "-m", MODULE, *sys.argv[1:]], os.environ | marks)


def _take_over(instance: Instance, part: Part) -> None:
    """End the keeper of a supervisor that has died, and nothing that it kept."""
    for process in living_keepers(instance, part):
        with contextlib.suppress(psutil.Error):
            process.kill()


def _stop(number: int, frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    raise Stopped


if __name__ == "__main__":
    main()
