"""The first calls of a system that has just been deployed: does it do what it is there for?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice
from types import MappingProxyType
from typing import Any

import httpx

from models.junctions import SHIPPED
from models.networks.network import Network
from serve_app.rollout.deploy import DeployError

TIMEOUT_S = 30.0
_NO_INFERENCE = (
    "the gateway does not reach a healthy inference service, and answers with its fallback; "
    "see inference_app and RL_INFERENCE_SERVICE_URL"
)
_OTHER_TOKEN = (
    "The applications run, but the inference service refuses a prediction without its token: set "
    "INFERENCE_TOKEN or INFERENCE_TOKEN_FILE here as where the system was started."
)
_NO_TOKEN: Mapping[str, str] = MappingProxyType({})
_RUN = {"X-Simulation-Run": "first-prediction"}
_QUEUES = (0.4, 0.2, 0, 0, 0.1)  # one after the other, of as many lanes as there are


def make_first_prediction(
    base_url: str, token: Mapping[str, str] = _NO_TOKEN, network: Network = SHIPPED
) -> str:
    """Prove the way of a request from end to end, in a run of its own, which is then cleared.

    Args:
        token: the header that bears the token of the inference service, if it asks for one.
        network: that the service at this URL serves.

    Returns:
        The answer's body.

    Raises:
        DeployError: no prediction succeeds.
    """
    deadline = time.monotonic() + TIMEOUT_S
    headers, body = {**_RUN, **token}, _first_body(network)
    while True:
        try:
            answer = httpx.post(f"{base_url}/predict_action", json=body, headers=headers, timeout=5)
            if answer.is_success:
                httpx.post(f"{base_url}/reset_hidden", headers=headers, timeout=15)
                return answer.text
            if answer.status_code == httpx.codes.UNAUTHORIZED:
                raise DeployError(_OTHER_TOKEN)
            trouble = f"{answer.status_code} {answer.text[:200]}"
        except httpx.HTTPError as error:
            trouble = str(error)
        if time.monotonic() > deadline:
            raise DeployError(f"The applications run, but a prediction fails: {trouble}")
        time.sleep(0.2)


def _first_body(network: Network) -> dict[str, Any]:
    junction = network.junctions[network.ids[min(1, network.n_agents - 1)]]
    phases = [1, *[0] * (junction.n_phases - 1)]
    queues = islice(cycle(_QUEUES), junction.n_lanes)
    return {"junction_id": junction.id, "obs_data": [*phases, 1, *queues]}


def doubts(
    base_url: str, applications: Sequence[Mapping[str, Any]], patience_s: float = 10.0
) -> Iterator[str]:
    """Yield a sentence for each application that runs, but not as the config asks.

    Args:
        patience_s: how long all together may take to find each other, the gateway the inference
            service and the console what it shows.
    """
    deadline = time.monotonic() + patience_s
    for application in applications:
        prefix = application["route_prefix"]
        url = base_url + prefix.rstrip("/")
        for trouble in _lasting_lacks(url, deadline):
            yield f"{prefix} is not ready: {trouble}"
        match application["import_path"]:
            case "serve_app.inference:build":
                detail = _ask(f"{url}/health").get("detail")
                if detail:
                    yield f"the inference service says: {detail}"
            case "serve_app.gateway:build":
                if not _becomes_healthy(f"{url}/traffic/health", deadline):
                    yield _NO_INFERENCE


def lacks(url: str) -> list[str]:
    """Return the sentences with which a replica of a service says that it is not ready."""
    checks = _ask(f"{url}/readyz").get("checks")
    return [said for said in checks.values() if said != "ok"] if isinstance(checks, dict) else []


def _lasting_lacks(url: str, deadline: float) -> list[str]:
    while (troubles := lacks(url)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return troubles


def _becomes_healthy(url: str, deadline: float) -> bool:
    while _ask(url).get("status") != "healthy":
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def _ask(url: str) -> dict[str, Any]:
    try:
        answer = httpx.get(url, timeout=5).json()
    except (httpx.HTTPError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}
