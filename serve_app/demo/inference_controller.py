"""A controller that asks the inference service itself, past the gateway."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

from greenwave.client import Client, FailedPrediction, GreenwaveError, Prediction, Timeouts
from models.junctions import JUNCTIONS
from models.simulation.observation import Observation
from serve_app.demo.outages import OutageLog

# longer than any healthy answer, shorter than a decision
INFERENCE_TIMEOUTS = Timeouts(attempt_s=2.0, total_s=2.0)


class InferenceController:
    """Sends each decision's observations in one call and applies the answers.

    A junction without a usable answer keeps its phase: a signal must go on when the service does
    not answer.

    Args:
        client: of the service, with timeouts.
        run_id: the simulation run that the hidden states belong to.

    Attributes:
        latencies_s: time to each complete answer.
    """

    WAY = "of five junctions"
    INSTEAD = "keeping the phase"

    def __init__(self, client: Client, run_id: str, outages: OutageLog) -> None:
        self._client = client
        self._run = client.inference.run(run_id)
        self.outages = outages
        self.latencies_s: list[float] = []

    def health(self) -> str:
        """Return the service's health in its own word."""
        return self._client.inference.health().status

    def reset(self) -> None:
        """Clear the run's hidden states.

        Raises:
            GreenwaveError: the service did not do it, so a run would start from a stale state.
        """
        self._run.reset()

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        asked = [(junction_id, values.tolist()) for junction_id, values in observations.items()]
        actions: dict[str, int] = {}
        problems: list[str] = []
        started = perf_counter()
        try:
            results = self._run.predict_many(asked)
            self.latencies_s.append(perf_counter() - started)
        except GreenwaveError as error:
            results = []
            problems.append(f"{type(error).__name__}: {error}")
        for (junction_id, _), result in zip(asked, results, strict=bool(results)):
            _accept(junction_id, result, actions, problems)
        self.outages.decided(len(observations) - len(actions), "".join(problems[-1:]))
        return actions


def _accept(
    junction_id: str,
    result: Prediction | FailedPrediction,
    actions: dict[str, int],
    problems: list[str],
) -> None:
    if isinstance(result, FailedPrediction):
        problems.append(f"{junction_id}: {result.message}")
    elif result.action >= JUNCTIONS[junction_id].n_phases:
        problems.append(f"{junction_id}: action {result.action}")
    else:
        actions[junction_id] = result.action
