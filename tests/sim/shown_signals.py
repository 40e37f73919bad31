"""What SUMO shows at the signals, second by second."""

import libsumo
import pytest

from models.networks.shipped import SHIPPED


def record_signals(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Record, per junction, the states of every simulated second from now on in a growing list."""
    shown: dict[str, list[str]] = {junction: [] for junction in SHIPPED.ids}
    advance = libsumo.simulationStep

    def step_and_look(until_s: float) -> None:
        while libsumo.simulation.getTime() < until_s:
            advance()
            for junction, states in shown.items():
                states.append(libsumo.trafficlight.getRedYellowGreenState(junction))

    monkeypatch.setattr(libsumo, "simulationStep", step_and_look)
    return shown
