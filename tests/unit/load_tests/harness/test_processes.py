"""CPU time and memory of processes that come and go."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from load_tests.harness.processes import (
    REST,
    busy_seconds,
    cpu_seconds,
    cpu_seconds_by_kind,
    memory_bytes,
    started_by,
    stop,
)

# leaves the session with a child, as some servers' workers do
PARENT = """
import subprocess, sys, time
loop = [sys.executable, "-c", "import time; time.sleep(600)"]
subprocess.Popen(loop)
subprocess.Popen(loop, start_new_session=True)
print("started", flush=True)
time.sleep(600)
"""


class _Fake:
    def __init__(self, *times: float, pss: int, gone: bool) -> None:
        self._times, self._pss, self._gone = times, pss, gone

    def cpu_times(self):
        self._check()
        names = ("user", "system", "children_user", "children_system")
        return SimpleNamespace(**dict(zip(names, self._times, strict=True)))

    def memory_full_info(self):
        self._check()
        return SimpleNamespace(pss=self._pss)

    def _check(self) -> None:
        if self._gone:
            raise psutil.NoSuchProcess(1)


def fake(*times: float, pss: int = 0, gone: bool = False) -> Any:
    """Return a process with these CPU times and this much memory, or one that is gone."""
    return _Fake(*times, pss=pss, gone=gone)


def test_the_time_of_all_processes_counts_in_both_modes():
    assert cpu_seconds([fake(1, 2, 0, 0), fake(4, 8, 0, 0)]) == 15


def test_the_time_of_a_process_that_ends_is_not_lost():
    before = [fake(1, 0, 0, 0), fake(3, 1, 0, 0)]
    after = [fake(1, 0, 3.5, 1.5), fake(0, 0, 0, 0, gone=True)]
    assert cpu_seconds(after) - cpu_seconds(before) == pytest.approx(1)


def test_memory_is_that_of_the_living():
    assert memory_bytes([fake(pss=5), fake(pss=7), fake(pss=9, gone=True)]) == 12


def test_cpu_time_is_told_apart_by_kind_of_process(monkeypatch):
    titles = {1.0: "ray::ServeReplica:x", 2.0: "/opt/haproxy", 4.0: "ray::IDLE"}
    processes = [fake(seconds, 0, 0, 0) for seconds in titles]
    read = lambda process: [titles[process.cpu_times().user], "-f"]  # noqa: E731
    monkeypatch.setattr("load_tests.harness.processes.read_command", read)
    found = cpu_seconds_by_kind(processes)
    assert found == {"replicas": 1.0, "HAProxy": 2.0, REST: 4.0}


def test_work_of_a_real_process_is_seen():
    me = psutil.Process()
    before, machine = cpu_seconds([me]), busy_seconds()
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    assert 0.05 < cpu_seconds([me]) - before < 5
    assert busy_seconds() - machine > 0.05
    assert memory_bytes([me]) > 1_000_000


def test_all_that_a_leader_has_started_is_found_and_stopped_even_after_the_leader():
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, start_new_session=True
    ) as leader:
        try:
            assert leader.stdout is not None
            leader.stdout.readline()
            found = started_by(leader.pid)
            assert len(found) == 3
            assert found[0].pid == leader.pid
            stop(found, timeout_s=20)
        finally:
            leader.kill()
    assert not [process for process in found if process.is_running()]
    assert started_by(leader.pid) == []
