"""CPU time of the processes of an instance, by what they are."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Mapping

import psutil

from serve_app.launcher.instance import Instance
from serve_app.launcher.marks import read_command

KINDS = {
    "ray::ServeReplica": "replicas",
    "ray::HiddenStates": "state actor",
    "ray::ServeController": "Serve's controller",
    "haproxy": "HAProxy",
}
OTHERS = "the rest of Ray"


def cpu_seconds(instance: Instance) -> Mapping[str, float]:
    """Return the CPU seconds that each kind of process has taken since it started."""
    seconds: dict[str, float] = collections.defaultdict(float)
    for process in instance.processes():
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            seconds[_kind(process)] += times.user + times.system
    return seconds


def _kind(process: psutil.Process) -> str:
    program = read_command(process)[0].rsplit("/", 1)[-1]
    return next((kind for start, kind in KINDS.items() if program.startswith(start)), OTHERS)
