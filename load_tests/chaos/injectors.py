"""Fault injectors: what can be done to the processes and the store of a running system."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import psutil

from load_tests.harness.redis_server import RedisServer
from load_tests.harness.system_under_test import FaultInjectionError
from load_tests.harness.waiting import wait_until

BACK_S = 60.0


class Subject(Protocol):
    """A system that faults are injected into.

    Attributes:
        redis: its store, where faults may concern it.
        moments: at which something was killed, stopped or continued.
    """

    @property
    def redis(self) -> RedisServer | None: ...

    @property
    def moments(self) -> list[float]: ...


def kill(subject: Subject, processes: Sequence[psutil.Process]) -> None:
    """Kill processes with ``kill -9``."""
    _signal(subject, signal.SIGKILL, processes)


def kill_and_wait(
    subject: Subject, find: Callable[[], list[psutil.Process]], n: int | None = None
) -> None:
    """Kill the first n processes, or all, and wait until there are as many as before."""
    before = find()
    kill(subject, before[:n])
    killed = set(before[:n])

    def are_back() -> bool:
        found = find()
        return len(found) == len(before) and not killed & set(found)

    wait_until(are_back, BACK_S, f"{len(before)} processes as before the kill")


def pause(subject: Subject, processes: Sequence[psutil.Process], seconds: float) -> None:
    """Stop processes with SIGSTOP, and continue them."""
    _signal(subject, signal.SIGSTOP, processes)
    try:
        time.sleep(seconds)
    finally:
        _signal(subject, signal.SIGCONT, processes)


def stop_store(subject: Subject, seconds: float) -> None:
    """Kill the store, and start it again."""
    assert subject.redis is not None
    note(subject)
    subject.redis.kill()
    time.sleep(seconds)
    subject.redis.start()


def note(subject: Subject) -> None:
    """Record that a fault happens now."""
    subject.moments.append(time.monotonic())


def _signal(subject: Subject, number: signal.Signals, processes: Sequence[psutil.Process]) -> None:
    """Send a signal to processes that were found before, so that it is one moment for all.

    Raises:
        FaultInjectionError: there is no process.
    """
    if not processes:
        raise FaultInjectionError("There is no process for this fault.")
    note(subject)
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
