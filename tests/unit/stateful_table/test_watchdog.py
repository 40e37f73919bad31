"""Processes that are stopped while they have a table open, in and outside of a transaction."""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path

import numpy as np
import pytest

from deployments.stateful.files import OwnedFiles, attach
from deployments.stateful.row import RowForm, name_of
from deployments.stateful.table import Table
from deployments.stateful.watchdog import Watchdog
from tests.support.local_states import stepped

FORM = RowForm(np.dtype(("f4", 8)), np.dtype([("action", "u1")]))
OWN, COMMON = name_of("run", "own"), name_of("run", "common")
SPAWN = multiprocessing.get_context("spawn")
PTRACE_ATTACH = 16


def step(table: Table, name: bytes) -> int:
    assert table.write([name], stepped(table.read([name]))).number
    return steps(table, name)


def steps(table: Table, name: bytes) -> int:
    return table.read([name]).rows.steps([0])[0]


def hold(folder: Path, nonce: str, to: Connection, stops: str) -> None:
    """Make three steps, and stop before or in a fourth, or run for 3 s within its transaction."""
    table = attach(folder, nonce, FORM)
    assert table is not None
    for _ in range(3):
        step(table, OWN)
    if stops == "outside":
        to.send(os.getpid())
        os.kill(os.getpid(), signal.SIGSTOP)
    with table._changing() as txn:
        txn.put(OWN, FORM.empty)
        to.send(os.getpid())
        if stops == "inside":
            os.kill(os.getpid(), signal.SIGSTOP)
        until = time.monotonic() + 3.0
        while time.monotonic() < until:
            sum(range(10_000))
    to.send("done")


def step_often(folder: Path, nonce: str, to: Connection) -> None:
    table = attach(folder, nonce, FORM)
    assert table is not None
    while True:
        to.send(step(table, OWN))
        time.sleep(0.001)


@pytest.fixture
def files() -> Iterator[OwnedFiles]:
    """Yield the files of a home that watches its table, for good."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="greenwave-test-") as folder:
        files = OwnedFiles(Path(folder, "base", "app", "shard"), FORM, "tag", 100)
        files.table.page.valid_until = float("inf")
        files.table.set_limit(100)
        watchdog = Watchdog(files.table, files.folder / "table-lock")
        yield files
        watchdog.stop()
        files.close()


@contextmanager
def process(
    target: Callable[..., None], files: OwnedFiles, *args: object
) -> Iterator[tuple[SpawnProcess, Connection]]:
    receive, send = SPAWN.Pipe(duplex=False)
    started = SPAWN.Process(target=target, args=(files.folder, files.form.nonce, send, *args))
    started.start()
    send.close()
    yield started, receive
    started.kill()
    started.join()
    receive.close()


def trace(pid: int) -> None:
    """Stop a process as a debugger does."""
    if ctypes.CDLL(None).ptrace(PTRACE_ATTACH, pid, 0, 0) != 0:
        pytest.skip("no process can be traced here")


@pytest.mark.parametrize("stops", ["inside", "outside", "traced"])
def test_a_process_that_is_stopped_is_killed(files, stops, caplog):
    with process(hold, files, stops) as (writer, answers):
        pid = answers.recv()
        if stops == "traced":
            trace(pid)
        began = time.monotonic()
        assert step(files.table, COMMON) == 1
        assert time.monotonic() - began < 1.5
        writer.join(2.0)
        assert writer.exitcode == -signal.SIGKILL
    assert steps(files.table, OWN) == 3
    assert f"Process {pid} was killed: a stopped user of hidden states" in caplog.messages


def test_a_slow_writer_is_not_killed(files):
    with process(hold, files, "never") as (writer, answers):
        answers.recv()
        began = time.monotonic()
        step(files.table, COMMON)
        assert time.monotonic() - began > 2.0
        assert answers.recv() == "done"
        writer.join(5.0)
        assert writer.exitcode == 0


def test_a_process_that_runs_between_many_stops_is_not_killed(files):
    with process(step_often, files) as (reader, answers):
        answers.recv()
        until = time.monotonic() + 3.0
        while time.monotonic() < until:
            os.kill(reader.pid or 0, signal.SIGSTOP)
            time.sleep(0.1)
            os.kill(reader.pid or 0, signal.SIGCONT)
            time.sleep(0.01)
        assert reader.is_alive()


class Pids(Table):
    """The table of a namespace in which processes have other numbers."""

    def __init__(self, pids: set[int]) -> None:
        self._pids = pids

    def pids(self) -> set[int]:
        return self._pids


def test_a_stopped_process_that_does_not_map_the_table_is_left_alone(files):
    other = subprocess.Popen(["sleep", "60"])
    try:
        other.send_signal(signal.SIGSTOP)
        missing = 1 << 22  # above every number
        watchdog = Watchdog(Pids({other.pid, missing, os.getpid()}), files.folder / "table-lock")
        time.sleep(3.0)
        watchdog.stop()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
