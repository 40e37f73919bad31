"""Calls of Ray's dashboard, and the token that Ray asks for.

Without the token, any client that reaches one of Ray's ports can run code as this user.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from serve_app.files import create_private

MODE = "RAY_AUTH_MODE"
TOKEN = "RAY_AUTH_TOKEN"
TOKEN_PATH = "RAY_AUTH_TOKEN_PATH"

_APPLICATIONS = "/api/serve/applications/"
_NODES = "/api/v0/nodes?limit=10000"


@dataclass(frozen=True)
class RayDashboard:
    """The dashboard of a cluster.

    Attributes:
        token_file: where the token is if the environment does not name another one.
    """

    url: str
    token_file: Path | None = None

    def applications(self, timeout_s: float = 10.0) -> dict[str, Any]:
        """Return what Serve knows of each application, by name.

        Raises:
            httpx.HTTPError: the dashboard does not answer.
        """
        found: dict[str, Any] = self.get(_APPLICATIONS, timeout_s).json()["applications"]
        return found

    def nodes(self) -> list[dict[str, Any]]:
        """Return what Ray knows of each node.

        Raises:
            httpx.HTTPError: the dashboard does not answer.
        """
        found: list[dict[str, Any]] = self.get(_NODES, 10.0).json()["data"]["result"]["result"]
        return found

    def get(self, path: str, timeout_s: float) -> httpx.Response:
        """Return a successful response.

        Raises:
            httpx.HTTPError: there is none.
        """
        return self._call("GET", path, timeout_s).raise_for_status()

    def deploy(self, config: Mapping[str, Any]) -> httpx.Response:
        """Send a serve config, as ``serve deploy`` does."""
        return self._call("PUT", _APPLICATIONS, 60.0, json=config)

    def token_header(self) -> dict[str, str]:
        token = read_token(self.token_file)
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def _call(self, method: str, path: str, timeout_s: float, **body: Any) -> httpx.Response:
        return httpx.request(
            method,
            self.url + path,
            headers=self.token_header(),
            timeout=timeout_s,
            verify=False,  # plain HTTP: reading all certificates takes 30 ms
            **body,
        )


def token_required() -> bool:
    """Return whether Ray asks for the token when it is started in this environment."""
    return os.environ.get(MODE) in (None, "token")


def token_environment(token_file: Path) -> dict[str, str]:
    """Return the variables that make Ray ask for the token; create the token if necessary.

    A mode, a token and a path that are set in the environment stay.

    Raises:
        OSError: the token cannot be written.
    """
    if not token_required():
        return {}
    if os.environ.get(TOKEN) or os.environ.get(TOKEN_PATH):
        return {MODE: "token"}
    create_private(token_file, secrets.token_hex(32).encode())
    return {MODE: "token", TOKEN_PATH: str(token_file.resolve())}


def read_token(token_file: Path | None) -> str | None:
    """Return the token of the environment, of the file, or of Ray's usual place, in that order."""
    if token := os.environ.get(TOKEN):
        return token.strip()
    named = os.environ.get(TOKEN_PATH)
    usual = Path.home() / ".ray" / "auth_token"
    for path in [Path(named)] if named else filter(None, (token_file, usual)):
        try:
            return path.read_text(encoding="utf-8").strip()
        except OSError:
            continue
    return None
