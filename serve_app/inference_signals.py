"""A controller that asks the inference service over HTTP, for closed-loop runs against it."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

import httpx

from models.junctions import JUNCTIONS
from models.simulation.observation import Observation

TIMEOUT = httpx.Timeout(2.0, connect=1.0)  # longer than any healthy answer, shorter than a decision


class InferenceController:
    """Sends each decision's observations in one ``POST /predict_actions`` and applies the answers.

    A junction without a usable answer keeps its phase, and the loss is counted: a signal must go on
    when the service does not answer.

    Args:
        client: bound to the service's base URL, with timeouts.
        run_id: the simulation run that the hidden states belong to.

    Attributes:
        lost_decisions: junctions' decisions for which no usable answer came.
        last_problem: the latest reason for a loss.
        latencies_s: time to each complete answer.
    """

    def __init__(self, client: httpx.Client, run_id: str) -> None:
        self._client = client
        self._headers = {"X-Simulation-Run": run_id}
        self.lost_decisions = 0
        self.last_problem = ""
        self.latencies_s: list[float] = []

    def reset(self) -> None:
        """Clear the run's hidden states.

        Raises:
            httpx.HTTPError: the service did not do it, so a run would start from a stale state.
        """
        self._client.post("/reset_hidden", headers=self._headers).raise_for_status()

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        body = {
            "items": [
                {"junction_id": junction_id, "obs_data": observation.tolist()}
                for junction_id, observation in observations.items()
            ]
        }
        actions: dict[str, int] = {}
        started = perf_counter()
        try:
            response = self._client.post("/predict_actions", json=body, headers=self._headers)
            response.raise_for_status()
            self.latencies_s.append(perf_counter() - started)
            for item in response.json()["items"]:
                self._accept(item, actions)
        except (httpx.HTTPError, ValueError, TypeError, KeyError) as error:
            self.last_problem = f"{type(error).__name__}: {error}"
        self.lost_decisions += len(observations) - len(actions)
        return actions

    def _accept(self, item: dict[str, object], actions: dict[str, int]) -> None:
        junction = JUNCTIONS[str(item["junction_id"])]
        action = item.get("action")
        if type(action) is int and 0 <= action < junction.n_phases:
            actions[junction.id] = action
        else:
            self.last_problem = f"{junction.id}: {item.get('error', f'action {action!r}')}"
