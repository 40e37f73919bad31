"""The gateway's token: until when it is valid, and when to renew it."""

from __future__ import annotations

from pydantic import Field

from greenwave.client.call import Call
from greenwave.client.errors import InvalidInputError
from greenwave.client.inputs import json_bytes, text
from greenwave.client.results import Form

_EARLY_S = 60.0  # of a token that is good for an hour; of a short one, a tenth of its life
_PAUSE_S = 10.0  # after a renewal that failed while the token before is good


class Grant(Form):
    """The gateway's answer to a login."""

    access_token: str = Field(min_length=1)
    expires_in: float = Field(gt=0)


class Login:
    """A token, its age by a monotonic clock in seconds, and the call that renews it."""

    def __init__(self, gateway: str, username: str, password: str) -> None:
        self.call = Call(
            method="POST",
            url=f"{gateway}/api/auth/login",
            read=lambda reply: Grant.model_validate_json(reply.body),
            headers={"content-type": "application/json"},
            body=json_bytes({"username": username, "password": password}),
        )
        self.token: str | None = None
        self._renew_from = 0.0
        self._good_until = 0.0

    def fresh(self, now: float) -> str | None:
        """Return the token, unless it is to be renewed."""
        return self.token if now < self._renew_from else None

    def good(self, now: float) -> str | None:
        """Return the token, unless it has expired."""
        return self.token if now < self._good_until else None

    def keep(self, grant: Grant, sent_at: float) -> str:
        """Use the token of a login that was sent at this time, and return it."""
        self._good_until = sent_at + grant.expires_in
        self._renew_from = self._good_until - min(_EARLY_S, grant.expires_in / 10)
        self.token = grant.access_token
        return grant.access_token

    def postpone(self, now: float) -> None:
        """Keep a valid token that could not be renewed."""
        self._renew_from = min(self._good_until, now + _PAUSE_S)

    def refuse(self, token: str) -> None:
        """Discard a refused token, unless it was replaced meanwhile."""
        if self.token == token:
            self.token = None


def make_bearer(token: str | None, name: str, origin: str) -> dict[str, str]:
    """Return the header with a configured token, if there is one.

    Args:
        name, origin: of the token, for the error.

    Raises:
        InvalidInputError: it is not valid in a header.
    """
    if token is None:
        return {}
    token = text(token, name).strip()
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise InvalidInputError(f"{name} must be {origin}")
    return {"authorization": f"Bearer {token}"}
