"""States of a signal in SUMO's notation, a letter for each link, G or g, y, r; their order."""

from __future__ import annotations

YELLOW_S = 3
MIN_GREEN_S = 5


def yellow_state(current: str, following: str) -> str:
    """Return the state between two green phases: yellow where green ends, all else as it is."""
    return "".join(
        "y" if now in "Gg" and then not in "Gg" else now
        for now, then in zip(current, following, strict=True)
    )


def red_state(current: str, following: str) -> str:
    """Return the state after the yellow: red where green has ended, all else as it is."""
    return yellow_state(current, following).replace("y", "r")


def in_order(present: int, asked: int) -> int:
    """Return the phase that leads to the one that is asked for without a step back.

    That is ``asked`` itself, or the first phase, which begins the next cycle. Drivers come to
    expect the order of the network file. Each later phase follows at most once in a cycle, in
    ascending order, and may be skipped; a phase that was skipped waits for the next cycle. So do
    coordinated actuated controllers, whose coordinated phase comes in every cycle.
    """
    return asked if asked >= present else 0
