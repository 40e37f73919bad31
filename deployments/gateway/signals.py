"""From the policy's action to what a traffic light shows."""

from __future__ import annotations

from typing import Final, Literal

SignalState = Literal["RED", "YELLOW", "GREEN"]

# The contract names no fourth state, so action 3 is green too; predictedAction tells them apart.
SIGNAL_OF_ACTION: tuple[SignalState, ...] = ("RED", "YELLOW", "GREEN", "GREEN")

FALLBACK_STATUS: Final = "fallback_mode (inference service down)"
