"""The times of the protocol, a tenth as long, and limits so small that messages have many parts.

Leases, timeouts and pauses keep their proportions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import sys
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

from deployments.stateful import admission
from deployments.stateful.authority import (
    authority,
    eviction,
    fenced_writer,
    leadership,
    other_clusters,
    ownership,
    recovery,
    snapshots,
    table,
)
from deployments.stateful.options import StateOptions
from deployments.stateful.replica import batcher, claims, commits, leases, receipts, session
from tests.unit.stateful.simulation.loop import SimulatedLoop

BOOTTIME, MONOTONIC = time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC

CALL_TIMEOUT_S = 0.5
RESET_TIMEOUT_S = 1.0
CLOSE_TIMEOUT_S = 1.0
KEEP_RELEASED_S = 3.0
RETIRE_TIMEOUT_S = 0.5
ANSWER_TIMEOUT_S = 0.05
MOST_KEYS = 8  # that a state keeps

_CONSTANTS: list[tuple[Any, str, object]] = [
    (session, "CALL_TIMEOUT_S", CALL_TIMEOUT_S),
    (leases, "CALL_TIMEOUT_S", CALL_TIMEOUT_S),
    (session, "RECONNECT_PAUSE_S", 0.01),
    (leases, "RECONNECT_PAUSE_S", 0.01),
    (leases, "RESET_TIMEOUT_S", RESET_TIMEOUT_S),
    (leases, "CLOSE_TIMEOUT_S", CLOSE_TIMEOUT_S),
    (claims, "KEEP_RELEASED_S", KEEP_RELEASED_S),
    (authority, "RELEASED_S", 2 * KEEP_RELEASED_S),
    (authority, "SWEEP_PERIOD_S", 0.03),
    (ownership, "PROBE_AFTER_S", 0.003),
    (snapshots, "RETRY_PAUSE_S", 0.01),
    (snapshots, "FLUSH_TIMEOUT_S", 0.4),
    (leadership, "_PAUSE_S", 0.02),
    (other_clusters, "_PAUSE_S", 0.02),
    (admission, "_STORE_PAUSE_S", 0.05),
    (recovery, "_PAUSE_S", 0.02),
    (claims, "STATES_PER_PART", 2),
    (claims, "NAMES_PER_PART", 2),
    (commits, "STATES_PER_COMMIT", 3),
    (snapshots, "ROWS_PER_WRITE", 2),
    (leadership, "ROWS_PER_WRITE", 2),
    (fenced_writer, "ROWS_PER_WRITE", 2),
    (eviction, "ROWS_PER_WRITE", 2),
    (eviction, "RECORDS_PER_TURN", 2),
    (batcher, "MAX_BATCH", 4),
    (receipts, "MAX_RECEIPTS", MOST_KEYS),
    (table, "MAX_RECEIPTS", MOST_KEYS),
    (batcher, "LONGEST_TURN_S", math.inf),  # of real time, which no schedule may depend on
]

OPTIONS = StateOptions().model_copy(update={"lease_s": 0.2, "snapshot_period_s": 0.1})


@contextlib.contextmanager
def a_tenth_as_long() -> Iterator[None]:
    """Patch the constants and the clocks, and refuse the engine the time of day."""
    with contextlib.ExitStack() as stack:
        for module, name, value in _CONSTANTS:
            stack.enter_context(mock.patch.object(module, name, value))
        stack.enter_context(mock.patch.object(time, "time", _no_time_of_day(time.time)))
        stack.enter_context(mock.patch.object(time, "clock_gettime", _simulated_clock))
        yield


@contextlib.contextmanager
def without_logs() -> Iterator[None]:
    logger = logging.getLogger("ray.serve")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _simulated_clock(which: int) -> float:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    if which == BOOTTIME:
        return loop.current.lease_clock()
    assert which == MONOTONIC, f"the simulation has no clock {which}"
    return loop.current.clock()


def _no_time_of_day(real: Any) -> Any:
    def time_of_day() -> float:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        assert not caller.startswith("deployments.stateful"), f"{caller} reads the time of day"
        seconds: float = real()
        return seconds

    return time_of_day
