"""Calls of Ray's dashboard, with Ray's token where the user has one."""

from __future__ import annotations

from typing import Any

import httpx

from serve_app.ray_token import read_token

APPLICATIONS = "/api/serve/applications/"
NODES = "/api/v0/nodes?limit=10000"


# Plain HTTP: without this, each call would read all certificates, for 30 ms.
_NO_TLS = False


def get(dashboard_url: str, path: str, timeout_s: float) -> httpx.Response:
    url = dashboard_url + path
    return httpx.get(url, headers=token_header(), timeout=timeout_s, verify=_NO_TLS)


def put(dashboard_url: str, path: str, body: Any, timeout_s: float) -> httpx.Response:
    url = dashboard_url + path
    return httpx.put(url, json=body, headers=token_header(), timeout=timeout_s, verify=_NO_TLS)


def token_header() -> dict[str, str]:
    token = read_token()
    return {} if token is None else {"Authorization": f"Bearer {token}"}
