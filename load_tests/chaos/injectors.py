"""Fault injectors: what can be done to the processes and the store of a running system."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Sequence

import psutil

from load_tests.harness.redis_server import RedisServer
from load_tests.harness.system_under_test import FaultInjectionError
from load_tests.harness.waiting import wait_until

BACK_S = 60.0


def kill(processes: Sequence[psutil.Process]) -> None:
    """Kill processes with ``kill -9``."""
    _signal(signal.SIGKILL, processes)


def kill_and_wait(find: Callable[[], list[psutil.Process]], n: int | None = None) -> None:
    """Kill the first n processes, or all, and wait until there are as many as before."""
    before = find()
    kill(before[:n])
    killed = set(before[:n])

    def are_back() -> bool:
        found = find()
        return len(found) == len(before) and not killed & set(found)

    wait_until(are_back, BACK_S, f"{len(before)} processes as before the kill")


def pause(processes: Sequence[psutil.Process], seconds: float) -> None:
    """Stop processes with SIGSTOP, and continue them."""
    _signal(signal.SIGSTOP, processes)
    try:
        time.sleep(seconds)
    finally:
        _signal(signal.SIGCONT, processes)


def stop_store(redis: RedisServer | None, seconds: float) -> None:
    """Kill the store, and start it again."""
    assert redis is not None
    redis.kill()
    time.sleep(seconds)
    redis.start()


def _signal(number: signal.Signals, processes: Sequence[psutil.Process]) -> None:
    """Send a signal to processes that were found before, so that it is one moment for all.

    Raises:
        FaultInjectionError: there is no process.
    """
    if not processes:
        raise FaultInjectionError("There is no process for this fault.")
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
