"""A controller that asks the inference service without the gateway."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Self

from greenwave.client import Client, FailedPrediction, GreenwaveError, Prediction, Timeouts
from greenwave.client.inputs import MAX_ITEMS
from lab.sim.observation import Observation
from models.networks.network import Junction, Network
from serve_app.demo.outages import OutageLog

if TYPE_CHECKING:
    from lab.sim.environment import Environment

# longer than any healthy answer, shorter than a decision
INFERENCE_TIMEOUTS = Timeouts(attempt_s=2.0, total_s=2.0)


class InferenceController:
    """Sends all observations of a decision in one call.

    A junction without a usable answer keeps its phase.

    Args:
        client: of the service, with timeouts.
        run_id: simulation run of the hidden states.

    Attributes:
        latencies_s: of each complete answer.
    """

    instead = "keeping the phase"

    def __init__(self, client: Client, run_id: str, outages: OutageLog, network: Network) -> None:
        self._client = client
        self._run = client.inference.run(run_id)
        self.outages = outages
        self.latencies_s: list[float] = []
        self._junctions = network.junctions
        self.way = f"of {min(MAX_ITEMS, network.n_agents)} junctions"

    def health(self) -> str:
        """Return the status of the service."""
        return self._client.inference.health().status

    def reset(self) -> None:
        """Clear the run's hidden states.

        Raises:
            GreenwaveError: the service refused, so the run would start from an old state.
        """
        self._run.reset()

    def probe(self) -> None:
        """Ask for one prediction, and discard it.

        Raises:
            GreenwaveError: there is none.
        """
        junction = next(iter(self._junctions.values()))
        self._run.predict(junction.id, [0.0] * junction.obs_size)

    def follow(self, environment: Environment) -> Self:
        """Control the signals of this run."""
        return self

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        items = [(junction_id, values.tolist()) for junction_id, values in observations.items()]
        actions: dict[str, int] = {}
        problems: list[str] = []
        for first in range(0, len(items), MAX_ITEMS):
            self._predict(items[first : first + MAX_ITEMS], actions, problems)
        self.outages.decided(len(observations) - len(actions), "".join(problems[-1:]))
        return actions

    def _predict(
        self, items: list[tuple[str, list[float]]], actions: dict[str, int], problems: list[str]
    ) -> None:
        started = perf_counter()
        try:
            results = self._run.predict_many(items)
        except GreenwaveError as error:
            problems.append(f"{type(error).__name__}: {error}")
            return
        self.latencies_s.append(perf_counter() - started)
        for (junction_id, _), result in zip(items, results, strict=True):
            _accept(self._junctions[junction_id], result, actions, problems)


def _accept(
    junction: Junction,
    result: Prediction | FailedPrediction,
    actions: dict[str, int],
    problems: list[str],
) -> None:
    if isinstance(result, FailedPrediction):
        problems.append(f"{junction.id}: {result.message}")
    elif result.action >= junction.n_phases:
        problems.append(f"{junction.id}: action {result.action}")
    else:
        actions[junction.id] = result.action
