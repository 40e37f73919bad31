"""What a token allows, as words of its claim ``scope`` (RFC 8693, section 4.2).

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
        ValueError: there is none, or a word names no scope; the message is one sentence.
    """
    named = frozenset(words)
    if not named or named - ALL:
        raise ValueError(f"Scopes are one or more of {', '.join(SCOPES)}.")
    return named


def write_scopes(scopes: Iterable[str]) -> str:
    """Return the claim, its words in one order."""
    named = frozenset(scopes)
    return " ".join(scope for scope in SCOPES if scope in named)


SERVICE_PREFIX = "service:"  # of the names of service accounts, in their tokens

Generation = int | str
"""A number for a user of the store; for one of the configuration, its password under a seal."""


class Verified(NamedTuple):
    """What a token says that one of our keys has signed.

    Attributes:
        subject: its user, or ``service:`` and the name of a service account.
        token_id: its ``jti``; None for one of an earlier release, or of another maker.
        generation: of its user's password when it was issued; None where the token does not say.
        expires_at: seconds since the Unix epoch, the end of its key included.
        key: that has signed it.
    """

    subject: str
    scopes: frozenset[str]
    token_id: str | None
    generation: Generation | None
    issued_at: float
    expires_at: float
    key: Key
