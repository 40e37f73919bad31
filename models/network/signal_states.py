"""States of a signal in SUMO's notation: a letter for each link, G or g, y, r."""

from __future__ import annotations


def yellow_state(current: str, following: str) -> str:
    """Return the state between two green phases: yellow where green ends, all else as it is."""
    return "".join(
        "y" if now in "Gg" and then == "r" else now
        for now, then in zip(current, following, strict=True)
    )
