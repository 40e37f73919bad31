"""How often Python looks for garbage in a process that keeps many states."""

from __future__ import annotations

import gc


def look_for_garbage_seldom() -> None:
    """Let far more objects come than by default before all of them are looked through.

    A hundred thousand states are many objects and no garbage; to look through them again and again
    would double the time that a restart takes, in the state actor and in whoever claims.
    """
    gc.set_threshold(100_000, 50, 100)
