"""Calls of Ray's dashboard, with Ray's token where the user has one.

Ray 2.60 asks for a token as soon as one exists for the user, and ``ray.init`` makes one unasked.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx

APPLICATIONS = "/api/serve/applications/"
NODES = "/api/v0/nodes?limit=10000"


# Plain HTTP: without this, each call would read all certificates, for 30 ms.
_NO_TLS = False


def get(dashboard_url: str, path: str, timeout_s: float) -> httpx.Response:
    url = dashboard_url + path
    return httpx.get(url, headers=_token_header(), timeout=timeout_s, verify=_NO_TLS)


def put(dashboard_url: str, path: str, body: Any, timeout_s: float) -> httpx.Response:
    url = dashboard_url + path
    return httpx.put(url, json=body, headers=_token_header(), timeout=timeout_s, verify=_NO_TLS)


def _token_header() -> dict[str, str]:
    """Read the token from the places that Ray itself looks in, in the same order."""
    token = os.environ.get("RAY_AUTH_TOKEN")
    if not token:
        path = os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token"
        try:
            token = Path(path).read_text(encoding="utf-8")
        except OSError:
            return {}
    return {"Authorization": f"Bearer {token.strip()}"}
