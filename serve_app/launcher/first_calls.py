"""The first calls of a system that has just been deployed: does it do what it is there for?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx

from serve_app.launcher.deploy import DeployError

TIMEOUT_S = 30.0
_NO_INFERENCE = (
    "the gateway does not reach a healthy inference service, and answers with its fallback; "
    "see inference_app and RL_INFERENCE_SERVICE_URL"
)
_RUN = {"X-Simulation-Run": "first-prediction"}
_BODY = {"junction_id": "300839359", "obs_data": [1, 0, 1, 0.4, 0.2, 0, 0, 0.1]}


def make_first_prediction(base_url: str) -> str:
    """Prove the way of a request from end to end, in a run of its own, which is then cleared.

    Returns:
        The answer's body.

    Raises:
        DeployError: no prediction succeeds.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            answer = httpx.post(f"{base_url}/predict_action", json=_BODY, headers=_RUN, timeout=5)
            if answer.is_success:
                httpx.post(f"{base_url}/reset_hidden", headers=_RUN, timeout=15)
                return answer.text
            trouble = f"{answer.status_code} {answer.text[:200]}"
        except httpx.HTTPError as error:
            trouble = str(error)
        if time.monotonic() > deadline:
            raise DeployError(f"The applications run, but a prediction fails: {trouble}")
        time.sleep(0.2)


def doubts(
    base_url: str, applications: Sequence[Mapping[str, Any]], patience_s: float = 10.0
) -> Iterator[str]:
    """Yield a sentence for each application that runs, but not as the config asks.

    Args:
        patience_s: how long the gateway may take to find the inference service.
    """
    for application in applications:
        url = base_url + application["route_prefix"].rstrip("/")
        match application["import_path"]:
            case "serve_app.inference:build":
                detail = _ask(f"{url}/health").get("detail")
                if detail:
                    yield f"the inference service says: {detail}"
            case "serve_app.gateway:build":
                if not _becomes_healthy(f"{url}/traffic/health", patience_s):
                    yield _NO_INFERENCE


def _becomes_healthy(url: str, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
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
