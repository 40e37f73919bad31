"""A controller that asks the gateway, junction by junction, as a roadside controller would."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TYPE_CHECKING

import httpx

from models.junctions import JUNCTIONS, Junction
from models.simulation.observation import Observation
from serve_app.credentials.first_user import Credentials
from serve_app.demo.outages import OutageLog

if TYPE_CHECKING:
    from models.simulation.controllers import Controller

GATEWAY_TIMEOUT = httpx.Timeout(5.0, connect=1.0)  # longer than the gateway's own deadline of 2 s


class Login(httpx.Auth):
    """Fetches a token at the first request, and another one when it is no longer accepted."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._token: str | None = None
        self._renewal = threading.Lock()

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        token = self._token or (yield from self._log_in(request.url, None))
        request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == 401:
            token = yield from self._log_in(request.url, token)
            request.headers["Authorization"] = f"Bearer {token}"
            yield request

    def _log_in(
        self, url: httpx.URL, refused: str | None
    ) -> Generator[httpx.Request, httpx.Response, str]:
        """Return a token other than the refused one; of several requests at once, one logs in."""
        with self._renewal:
            if self._token is None or self._token == refused:
                body = self._credentials._asdict()
                base = url.path.rpartition("/api/")[0]
                login = httpx.Request(
                    "POST", url.copy_with(path=f"{base}/api/auth/login"), json=body
                )
                response = yield login
                response.raise_for_status()
                response.read()
                self._token = str(response.json()["accessToken"])
            return self._token


class GatewayController:
    """Sends each junction's observation in a ``POST /api/traffic/action`` of its own, all at once.

    A junction that gets the gateway's fallback, or no usable answer, follows a fixed-time plan
    until the policy is back: the fallback's RED for minutes on end would stop the traffic.

    Args:
        client: bound to the gateway's base URL, with timeouts and a Login.
        run_id: the simulation run that the hidden states belong to.
        plan: decides in the policy's place.

    Attributes:
        latencies_s: time to each answer, fallbacks included.
    """

    HEALTH_PATH = "/api/traffic/health"
    WAY = "through the gateway, one per junction"
    INSTEAD = "by the fixed-time plan"

    def __init__(
        self, client: httpx.Client, run_id: str, plan: Controller, outages: OutageLog
    ) -> None:
        self._client = client
        self._headers = {"X-Simulation-Run": run_id}
        self._plan = plan
        self.outages = outages
        self.latencies_s: list[float] = []
        self._threads = ThreadPoolExecutor(len(JUNCTIONS), thread_name_prefix="junction")

    def reset(self) -> None:
        """Clear the run's hidden states.

        Raises:
            httpx.HTTPError: the gateway did not do it, so a run would start from a stale state.
        """
        self._plan.reset()
        self._client.post("/api/traffic/reset", headers=self._headers).raise_for_status()

    def act(self, observations: Mapping[str, Observation]) -> dict[str, int]:
        actions = self._plan.act(observations)
        answers = self._threads.map(self._ask, observations.items())
        without_policy, reason = 0, ""
        for junction_id, answer in zip(observations, answers, strict=True):
            if isinstance(answer, int):
                actions[junction_id] = answer
            else:
                without_policy += 1
                reason = answer
        self.outages.decided(without_policy, reason)
        return actions

    def _ask(self, observation: tuple[str, Observation]) -> int | str:
        """Return the policy's action, or the reason why there is none."""
        junction_id, values = observation
        body = {"junctionId": junction_id, "observations": values.tolist()}
        started = perf_counter()
        try:
            response = self._client.post("/api/traffic/action", json=body, headers=self._headers)
            response.raise_for_status()
            self.latencies_s.append(perf_counter() - started)
            return _policy_action(JUNCTIONS[junction_id], response.json())
        except (httpx.HTTPError, ValueError, TypeError, KeyError) as error:
            return f"{type(error).__name__}: {error}"


def _policy_action(junction: Junction, answer: dict[str, object]) -> int | str:
    action = answer["predictedAction"]
    if answer["status"] != "success":
        return str(answer["status"])
    if type(action) is not int or not 0 <= action < junction.n_phases:
        return f"{junction.id}: action {action!r}"
    return action
