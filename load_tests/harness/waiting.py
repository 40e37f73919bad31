"""Waiting for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout_s: float, what: str) -> float:
    """Return after how many seconds a condition holds.

    Args:
        what: the condition in words, for the error.

    Raises:
        TimeoutError: it does not hold in time.
    """
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > timeout_s:
            raise TimeoutError(f"Not within {timeout_s:g} s: {what}.")
        time.sleep(0.1)
    return time.monotonic() - started
