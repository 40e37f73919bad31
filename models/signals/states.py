"""States of a signal in SUMO's notation: a letter for each link, G or g, y, r."""

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
