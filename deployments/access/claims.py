"""Verified claims of tokens, and the words of the claim ``scope`` (RFC 8693, section 4.2).

``act``: ask for decisions. ``reset``: clear hidden states. ``read``: watch the console.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from deployments.access.keys import Key

Scope = Literal["act", "reset", "read"]

SCOPES: tuple[Scope, ...] = get_args(Scope)
ALL: frozenset[str] = frozenset(SCOPES)


def read_scopes(words: Iterable[str]) -> frozenset[str]:
    """Return the scopes that the words name.

    Raises:
        ValueError: no scopes, or an unknown one; the message is one sentence.
    """
    named = frozenset(words)
    if not named or named - ALL:
        raise ValueError(f"Scopes are one or more of {', '.join(SCOPES)}.")
    return named


def write_scopes(scopes: Iterable[str]) -> str:
    """Return the claim, its words in the order of SCOPES."""
    named = frozenset(scopes)
    return " ".join(scope for scope in SCOPES if scope in named)


SERVICE_PREFIX = "service:"  # of the names of service accounts, in their tokens

Generation = int | str
"""A number for a user in the store; a sealed password hash for a configured user."""


class Claims(NamedTuple):
    """The verified claims of a token.

    Attributes:
        subject: a user, or ``service:`` and the name of a service account.
        token_id: its ``jti``; None for a token of an earlier release or of another program.
        generation: of its user when it was issued, if the token has one.
        not_before: its ``nbf`` or its ``iat``, the later one.
        expires_at: seconds since the Unix epoch, not later than its key's end.
        key: that signed it.
    """

    subject: str
    scopes: frozenset[str]
    token_id: str | None
    generation: Generation | None
    issued_at: float
    not_before: float
    expires_at: float
    key: Key
