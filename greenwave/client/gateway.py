"""The calls of the gateway, which need its login."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from greenwave.client.call import Call, Effect, Reply
from greenwave.client.inputs import checked_key, numbers, text
from greenwave.client.results import Decision, GatewayHealth, Shown
from greenwave.client.service import (
    Mode,
    ProbedService,
    Service,
    nothing,
    operation,
    reading,
)


class Gateway(ProbedService[Mode]):
    """The calls of the gateway that concern no run."""

    prefix = "/api"

    @operation
    def health(self) -> Call[GatewayHealth]:
        """Return whether the gateway reaches the policy; ``degraded`` is a result, not an error."""
        return self._status("/traffic/health", GatewayHealth)


class Run(Service[Mode]):
    """Decisions of the gateway for the junctions of one simulation run."""

    prefix = "/api/traffic"
    needs_login = True

    @operation
    def act(
        self,
        junction: str,
        observation: Sequence[float],
        *,
        vehicle_counts: bool = False,
        simulation_time_s: float | None = None,
        shown: Shown | None = None,
        metadata: Any = None,
        key: str | None = None,
    ) -> Call[Decision]:
        """Ask which phase a junction is to show next; the policy makes one step.

        Args:
            observation: current phase, whether it may change, lanes; at most 19
                numbers of the shipped network, of others as many as their junctions observe.
            vehicle_counts: whether the lanes have vehicles instead of shares.
            simulation_time_s: seconds of a simulation's day, which a fallback by plan then goes by.
            shown: by the junction now, which the safety layer asks for.
            metadata: for the gateway's log.
            key: of an earlier step, to get its decision again. By default each call is a new step,
                however often it is sent.
        """
        key = checked_key(key)
        body: dict[str, Any] = {
            "junctionId": text(junction, "junction"),
            "observations": numbers(observation, "observation"),
        }
        if vehicle_counts:
            body["observationFormat"] = "vehicle_counts"
        if simulation_time_s is not None:
            (body["simulationTime"],) = numbers([simulation_time_s], "simulation_time_s")
        if shown is not None:
            (green_s,) = numbers([shown.green_s], "green_s")
            red_s = numbers(shown.red_s, "red_s")
            body["shown"] = {"phase": shown.phase, "greenSeconds": green_s, "redSeconds": red_s}
        if metadata is not None:
            body["metadata"] = metadata
        read = partial(_read_own_decision, junction, key)
        return self._call("POST", "/action", read, Effect.IDEMPOTENT, key=key, json=body)

    @operation
    def demo(self) -> Call[Decision]:
        """Let the gateway make up an observation of some junction, and decide."""
        return self._call("GET", "/action", reading(Decision), Effect.NOT_IDEMPOTENT)

    @operation
    def reset(self) -> Call[None]:
        """Clear the hidden states of this run. Do this at a simulation's start."""
        return self._call("POST", "/reset", nothing, Effect.IDEMPOTENT)


def _read_own_decision(junction: str, key: str, reply: Reply) -> Decision:
    decision = Decision.model_validate_json(reply.body)
    if decision.junction_id != junction:
        raise ValueError("a decision for another junction")
    return decision.model_copy(update={"key": key})
