"""The first calls of a deployed system, which check that it serves as configured."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice
from typing import Any

import httpx

from models.networks.network import Network
from serve_app.errors import DeployError
from serve_app.rollout.capacity import INFERENCE

GATEWAY = "serve_app.gateway:build"
TIMEOUT_S = 30.0
_POLL_S = 0.2
_NO_INFERENCE = (
    "the gateway does not reach a healthy inference service, and answers with its fallback; "
    "see inference_app and RL_INFERENCE_SERVICE_URL"
)
_OTHER_TOKEN = (
    "The applications run, but the inference service refuses a prediction without its token. Set "
    "INFERENCE_TOKEN or INFERENCE_TOKEN_FILE here as where the system was started."
)
_RUN = {"X-Simulation-Run": "first-prediction"}
_QUEUES = (0.4, 0.2, 0, 0, 0.1)  # of the lanes, repeated


def predict_once(base_url: str, token: Mapping[str, str], network: Network) -> str:
    """Make a prediction in a separate run, and reset the run.

    Args:
        token: header with the token of the inference service, if it asks for one.
        network: that the service at this URL serves.

    Returns:
        The body of the answer.

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
            reason = f"{answer.status_code} {answer.text[:200]}"
        except httpx.HTTPError as error:
            reason = str(error)
        if time.monotonic() > deadline:
            raise DeployError(f"The applications run, but a prediction fails: {reason}")
        time.sleep(_POLL_S)


def has_policy(base_url: str) -> bool:
    """Return whether the inference service at this URL has a policy, or may have one."""
    return _get(f"{base_url}/health").get("status") != "no_model"


def _first_body(network: Network) -> dict[str, Any]:
    junction = network.junctions[network.ids[min(1, network.n_agents - 1)]]
    phases = [1, *[0] * (junction.n_phases - 1)]
    queues = islice(cycle(_QUEUES), junction.n_lanes)
    return {"junction_id": junction.id, "obs_data": [*phases, 1, *queues]}


def find_problems(
    base_url: str, applications: Sequence[Mapping[str, Any]], timeout_s: float = TIMEOUT_S
) -> Iterator[str]:
    """Yield a sentence for each application that runs, but not as the config asks.

    Args:
        timeout_s: for all applications together, until each has found what it needs: the gateway
            the inference service, and the console its feed.
    """
    deadline = time.monotonic() + timeout_s
    for application in applications:
        yield from _problems_of(application, base_url, deadline)


def _problems_of(application: Mapping[str, Any], base_url: str, deadline: float) -> Iterator[str]:
    prefix, builder = application["route_prefix"], application["import_path"]
    url = base_url + prefix.rstrip("/")
    while (failing := failing_checks(url)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    for reason in failing:
        yield f"{prefix} is not ready: {reason}"
    if builder == INFERENCE and (detail := _get(f"{url}/health").get("detail")):
        yield f"the inference service reports: {detail}"
    if builder == GATEWAY and not _becomes_healthy(f"{url}/traffic/health", deadline):
        yield _NO_INFERENCE


def failing_checks(url: str) -> list[str]:
    """Return the reasons why a replica of a service is not ready."""
    probe = _get(f"{url}/readyz")
    checks = probe.get("checks")
    if probe.get("status") == "ready":
        return []  # the others are warnings
    return [each for each in checks.values() if each != "ok"] if isinstance(checks, dict) else []


def _becomes_healthy(url: str, deadline: float) -> bool:
    while _get(url).get("status") != "healthy":
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _get(url: str) -> dict[str, Any]:
    try:
        answer = httpx.get(url, timeout=5).json()
    except (httpx.HTTPError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}
