"""The safety layer in the gateway: what a client says it shows, and what it may show next."""

from __future__ import annotations

from collections.abc import Mapping

from deployments.gateway.options import GatewayOptions
from deployments.gateway.schemas import Safety, SafetyStep
from models.junctions import SHIPPED
from models.networks.network import Junction, Network
from models.signals.monitor import ConflictMonitor
from models.signals.monitors import make_monitors
from models.signals.safety import Limits, SafetyLayer, Shown, Step, read_layers


class SafetyGuard:
    """Decides what a controller may show, and has the monitor look at each answer.

    It keeps nothing about junctions: what one shows comes with each request.

    Args:
        layers, monitors: by junction.
    """

    def __init__(
        self, layers: Mapping[str, SafetyLayer], monitors: Mapping[str, ConflictMonitor]
    ) -> None:
        self._layers = layers
        self._monitors = monitors
        self._changes: dict[tuple[Step, ...], list[SafetyStep]] = {}

    def decide(self, junction_id: str, shown: Shown, asked: int) -> tuple[int, Safety]:
        """Return the phase to show next, and what the answer says about it.

        Args:
            asked: the phase that the policy or the fallback wants. One that the junction does not
                have keeps what it shows.

        Raises:
            ConflictError: the layer is wrong; nothing of its answer may be shown.
        """
        layer = self._layers[junction_id]
        exists = asked < len(layer.phases)
        decision = layer.decide(shown, asked if exists else shown.phase)
        monitor = self._monitors[junction_id]
        monitor.check(layer.phases[decision.phase])
        for step in decision.steps:
            monitor.check(step.state)
        return decision.phase, Safety.model_construct(
            asked=asked,
            rule=decision.rule if exists or decision.rule != "none" else "no_such_phase",
            showAfterSeconds=decision.after_s,
            steps=self._told(decision.steps),
        )

    def _told(self, steps: tuple[Step, ...]) -> list[SafetyStep]:
        """Return the steps of a change as they stand in answers; there are few changes."""
        told = self._changes.get(steps)
        if told is None:
            told = [
                SafetyStep.model_construct(afterSeconds=after_s, state=state)
                for after_s, state in steps
            ]
            self._changes[steps] = told
        return told


def limits_of(options: GatewayOptions) -> Limits:
    return Limits(
        options.safety_min_green_s, options.safety_max_red_s, options.safety_asked_every_s
    )


def check_safety(options: GatewayOptions, network: Network) -> None:
    """Refuse a safety layer that cannot be made, or whose limits cannot be kept.

    Raises:
        ValueError: says why.
    """
    if options.safety:
        make_guard(limits_of(options), network)


def make_guard(limits: Limits, network: Network = SHIPPED) -> SafetyGuard:
    """Return the guard of a network's junctions.

    Raises:
        ValueError: the limits cannot be kept, or the network's file does not say what a guard
            needs; says at which junction.
    """
    return SafetyGuard(read_layers(limits, network), make_monitors(network))


def made_up(junction: Junction, observation: list[float]) -> Shown:
    """Return what a junction with a made-up observation shows, long enough to change."""
    phase = observation.index(1.0)
    return Shown(phase, 60.0, [0.0] * junction.n_phases)
