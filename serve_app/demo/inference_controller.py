"""A controller that asks the inference service itself, past the gateway."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

import httpx

from models.junctions import JUNCTIONS
from models.simulation.observation import Observation
from serve_app.demo.outages import OutageLog

# longer than any healthy answer, shorter than a decision
INFERENCE_TIMEOUT = httpx.Timeout(2.0, connect=1.0)


class InferenceController:
    """Sends each decision's observations in one ``POST /predict_actions`` and applies the answers.

    A junction without a usable answer keeps its phase: a signal must go on when the service does
    not answer.

    Args:
        client: bound to the service's base URL, with timeouts.
        run_id: the simulation run that the hidden states belong to.

    Attributes:
        latencies_s: time to each complete answer.
    """

    HEALTH_PATH = "/health"
    WAY = "of five junctions"
    INSTEAD = "keeping the phase"

    def __init__(self, client: httpx.Client, run_id: str, outages: OutageLog) -> None:
        self._client = client
        self._headers = {"X-Simulation-Run": run_id}
        self.outages = outages
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
        problems: list[str] = []
        started = perf_counter()
        try:
            response = self._client.post("/predict_actions", json=body, headers=self._headers)
            response.raise_for_status()
            self.latencies_s.append(perf_counter() - started)
            for item in response.json()["items"]:
                _accept(item, actions, problems)
        except (httpx.HTTPError, ValueError, TypeError, KeyError) as error:
            problems.append(f"{type(error).__name__}: {error}")
        self.outages.decided(len(observations) - len(actions), "".join(problems[-1:]))
        return actions


def _accept(item: dict[str, object], actions: dict[str, int], problems: list[str]) -> None:
    junction = JUNCTIONS[str(item["junction_id"])]
    action = item.get("action")
    if type(action) is int and 0 <= action < junction.n_phases:
        actions[junction.id] = action
    else:
        problems.append(f"{junction.id}: {item.get('error', f'action {action!r}')}")
