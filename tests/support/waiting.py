"""Waiting by progress: on a busy machine it takes longer, and it fails only at a standstill."""

import asyncio
import time
from collections.abc import Callable, Iterator

STALLED_S = 180.0


def until(
    condition: Callable[[], object],
    progress: Callable[[], object] = lambda: None,
    stalled_s: float = STALLED_S,
) -> None:
    """Return when a condition holds.

    Args:
        progress: what changes as long as there is hope, such as a number of answers.
        stalled_s: so long without progress is a failure.

    Raises:
        AssertionError: the condition does not hold, and progress stands still.
    """
    hope = _hope(progress, stalled_s)
    while not condition():
        next(hope)
        time.sleep(0.05)


async def until_async(
    condition: Callable[[], object],
    progress: Callable[[], object] = lambda: None,
    stalled_s: float = STALLED_S,
) -> None:
    """Do the same as :func:`until` beside other tasks of the event loop."""
    hope = _hope(progress, stalled_s)
    while not condition():
        next(hope)
        await asyncio.sleep(0.02)


def _hope(progress: Callable[[], object], stalled_s: float) -> Iterator[None]:
    seen, since = progress(), time.monotonic()
    while True:
        if (now := progress()) != seen:
            seen, since = now, time.monotonic()
        if time.monotonic() - since > stalled_s:
            raise AssertionError(f"not in {stalled_s:g} s without progress; it stands at {seen}")
        yield
