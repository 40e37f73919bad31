"""The safety layer in the gateway: from what a junction shows to what it may show next."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from deployments.gateway.options import GatewayOptions
from deployments.gateway.schemas import Safety, SafetyRule, SafetyStep
from models.networks.network import Junction, Network
from models.networks.shipped import SHIPPED
from models.signals.monitor import ConflictMonitor, make_monitors
from models.signals.safety import SafetyLayer, Shown, Step, read_layers


class SafetyGuard:
    """Decides what a junction may show, and checks each answer with the conflict monitor.

    It has no state about junctions: each request says what its junction shows.

    Args:
        layers, monitors: by junction.
    """

    def __init__(
        self, layers: Mapping[str, SafetyLayer], monitors: Mapping[str, ConflictMonitor]
    ) -> None:
        self._layers = layers
        self._monitors = monitors

    def decide(self, junction_id: str, shown: Shown, asked: int) -> tuple[int, Safety]:
        """Return the phase to show next, and the member ``safety`` of the answer.

        Args:
            asked: phase of the policy or the fallback. The junction keeps what it shows if it does
                not have that phase.

        Raises:
            ConflictError: the layer is defective; its answer must not be shown.
        """
        layer = self._layers[junction_id]
        exists = asked < len(layer.phases)
        decision = layer.decide(shown, asked if exists else shown.phase)
        monitor = self._monitors[junction_id]
        monitor.check(layer.phases[decision.phase])
        for step in decision.steps:
            monitor.check(step.state)
        rule: SafetyRule = "no_such_phase"  # until the next cycle, if it is out of order
        if decision.rule != "phase_order" and (exists or decision.rule != "none"):
            rule = decision.rule
        return decision.phase, Safety.model_construct(
            asked=asked,
            rule=rule,
            showAfterSeconds=decision.after_s,
            steps=_described(decision.steps),
        )


@cache  # changes are few
def _described(steps: tuple[Step, ...]) -> list[SafetyStep]:
    """Return the steps of a change as an answer has them."""
    return [
        SafetyStep.model_construct(afterSeconds=after_s, state=state) for after_s, state in steps
    ]


def make_guard(options: GatewayOptions, network: Network = SHIPPED) -> SafetyGuard | None:
    """Return the guard of a network's junctions; None without the safety layer.

    Raises:
        ValueError: the limits cannot be kept, or the network file lacks what a guard needs; the
            message names the junction.
    """
    if not options.safety:
        return None
    return SafetyGuard(read_layers(options.limits, network), make_monitors(network))


def made_up(junction: Junction, observation: list[float]) -> Shown:
    """Return what a junction with a made-up observation shows, for long enough to change."""
    phase = observation.index(1.0)
    return Shown(phase, 60.0, [0.0] * junction.n_phases)
