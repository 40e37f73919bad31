"""The clock of leases."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Return seconds since the machine started, those in which it slept included.

    The monotonic clock of Linux stands still while a machine is suspended, and a lease must not.
    """
    return time.clock_gettime(_CLOCK)
