"""The token that a service without users may ask every client for."""

from __future__ import annotations

from collections.abc import Sequence
from hmac import compare_digest

from starlette.types import Scope

from deployments.http.errors import UnauthorizedError


class BearerGuard:
    """Refuses requests without one of the tokens; how long that takes tells nothing of them.

    Args:
        tokens: one at least, of printable ASCII.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        if not tokens:
            raise ValueError("a guard needs a token")
        self._tokens = [token.encode("ascii") for token in tokens]

    def __call__(self, scope: Scope) -> None:
        """Let a request pass.

        Raises:
            UnauthorizedError: it has no token, or not the right one, or several.
        """
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1 or given[0][:7].lower() != b"bearer ":
            raise UnauthorizedError("A bearer token is required")
        token = given[0][7:].strip()
        matches = [compare_digest(token, each) for each in self._tokens]
        if not any(matches):
            raise UnauthorizedError("The token is not valid")
