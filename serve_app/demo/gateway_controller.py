"""A controller that asks the gateway, junction by junction, as a roadside controller would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Self

from greenwave.client import Client, Decision, GreenwaveError, Shown
from lab.sim.observation import Observation
from models.networks.network import Junction, network_of

if TYPE_CHECKING:
    from lab.sim.controllers import Controller
    from lab.sim.environment import Environment
    from lab.sim.scenario import Scenario

MAX_THREADS = 32


@dataclass
class Outage:
    """Successive decisions in which some junction lacked the policy.

    Attributes:
        begin_s, end_s: simulated seconds of the day.
        decisions: of single junctions without the policy.
        reason: of the latest one.
    """

    begin_s: int
    end_s: int
    decisions: int = 0
    reason: str = ""


class GatewayController:
    """Sends each junction's observation in a separate call, all at once.

    A junction that gets the gateway's fallback, or no decision, serves its longest queue until the
    policy is back: the fallback's RED would stop the traffic.

    Args:
        client: with the login of one of the gateway's users.
        run_id: simulation run of the hidden states.
        scenario: with a safety layer, calls say what the junction shows, as a gateway with one
            asks.
        instead: decides where the policy is unavailable.

    Attributes:
        latencies_s: of each answer, fallbacks included.
        outages: in their order.
    """

    def __init__(
        self, client: Client, run_id: str, scenario: Scenario, instead: Controller
    ) -> None:
        self._run = client.run(run_id)
        self._instead = instead
        self.outages: list[Outage] = []
        self.latencies_s: list[float] = []
        self._time_s, self._decision_s = scenario.begin_s, scenario.decision_s
        self._is_away = False
        self._safely = scenario.guarded
        self._shown: Mapping[str, Shown] = {}
        self._environment: Environment | None = None
        self._junctions = network_of(scenario.network).junctions
        threads = min(MAX_THREADS, len(self._junctions))
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="junction")

    def follow(self, environment: Environment) -> Self:
        """Control the signals of this run."""
        self._environment = environment
        return self

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        actions = self._instead.act(observations)
        if self._safely and self._environment is not None:
            shown = self._environment.shown
            self._shown = {junction_id: Shown(*each) for junction_id, each in shown.items()}
        answers = self._threads.map(self._ask, observations.items())
        reasons = []
        for junction_id, answer in zip(observations, answers, strict=True):
            if isinstance(answer, int):
                actions[junction_id] = answer
            else:
                reasons.append(answer)
        self._record(reasons)
        return actions

    def _record(self, reasons: Sequence[str]) -> None:
        """Begin an outage, continue it, or end it."""
        if reasons and not self._is_away:
            self.outages.append(Outage(self._time_s, self._time_s))
        self._is_away = bool(reasons)
        self._time_s += self._decision_s
        if reasons:
            outage = self.outages[-1]
            outage.end_s = self._time_s
            outage.decisions += len(reasons)
            outage.reason = reasons[-1]

    def _ask(self, observation: tuple[str, Observation]) -> int | str:
        """Return the policy's action, or the reason for the lack of one."""
        junction_id, values = observation
        started = perf_counter()
        try:
            shown = self._shown.get(junction_id)
            decision = self._run.act(junction_id, values.tolist(), shown=shown)
        except GreenwaveError as error:
            return f"{type(error).__name__}: {error}"
        self.latencies_s.append(perf_counter() - started)
        return _policy_action(self._junctions[junction_id], decision)


def _policy_action(junction: Junction, decision: Decision) -> int | str:
    if decision.is_fallback:
        return decision.status
    if decision.action >= junction.n_phases:
        return f"{junction.id}: action {decision.action}"
    return decision.action
