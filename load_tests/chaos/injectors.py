"""Fault injectors: what can be done to the processes and the store of a running system."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Sequence

import psutil

from load_tests.harness.redis_server import RedisServer
from load_tests.harness.system_under_test import FaultInjectionError


def kill(processes: Sequence[psutil.Process]) -> None:
    """Kill processes with ``kill -9``."""
    _signal(signal.SIGKILL, processes)


def pause(processes: Sequence[psutil.Process], seconds: float) -> None:
    """Stop processes with SIGSTOP, and continue them."""
    _signal(signal.SIGSTOP, processes)
    try:
        time.sleep(seconds)
    finally:
        _signal(signal.SIGCONT, processes)


def stop_store(redis: RedisServer, seconds: float) -> None:
    """Kill the store, and start it again."""
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
