"""What SUMO shows at the signals, second by second."""

from __future__ import annotations

import libsumo
import pytest

from models.networks.shipped import JUNCTIONS


def record_signals(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Record, per junction, the states of every simulated second from now on in a growing list."""
    shown: dict[str, list[str]] = {junction_id: [] for junction_id in JUNCTIONS}
    advance = libsumo.simulationStep

    def step_and_look() -> None:
        advance()
        for junction_id, states in shown.items():
            states.append(libsumo.trafficlight.getRedYellowGreenState(junction_id))

    monkeypatch.setattr(libsumo, "simulationStep", step_and_look)
    return shown
