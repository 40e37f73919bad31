"""Waiting for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout_s: float, what: str) -> None:
    """Return when a condition holds.

    Args:
        what: the condition in words, for the error.

    Raises:
        TimeoutError: it does not hold in time.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Not within {timeout_s:g} s: {what}.")
        time.sleep(0.1)
