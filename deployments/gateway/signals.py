"""From the policy's action to what a traffic light shows."""

from __future__ import annotations

from typing import Final, Literal

SignalState = Literal["RED", "YELLOW", "GREEN"]

# The contract names no fourth state, so action 3 is green too; predictedAction tells them apart.
SIGNAL_OF_ACTION: tuple[SignalState, ...] = ("RED", "YELLOW", "GREEN", "GREEN")


def signal_of(action: int) -> SignalState:
    """Return the state of an action; of those that the contract does not know, too."""
    return SIGNAL_OF_ACTION[action] if action < len(SIGNAL_OF_ACTION) else "GREEN"


FALLBACK_STATUS: Final = "fallback_mode (inference service down)"
