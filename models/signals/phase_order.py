"""The cyclic order of a junction's phases: that of the network file, which drivers come to expect.

A cycle begins with the first phase. Each later phase follows at most once in a cycle, in ascending
order, and may be skipped; a phase that was skipped waits for the next cycle. So do coordinated
actuated controllers, whose coordinated phase comes in every cycle.
"""

from __future__ import annotations


def in_order(present: int, asked: int) -> int:
    """Return the phase that leads to the one that is asked for without a step back.

    That is ``asked`` itself, or the first phase, which begins the next cycle.
    """
    return asked if asked >= present else 0
