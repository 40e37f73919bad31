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


SERVICE_PREFIX = "service:"  # of the names of service accounts, in their tokens
MAX_NAME_LENGTH = 64


class AccountError(Exception):
    """A user or a service account cannot be created, found or changed; the message says why."""


def check_name(name: str, what: str) -> None:
    """Raise AccountError unless a user or a service account may have this name."""
    if not name.strip() or name != name.strip() or not name.isprintable():
        raise AccountError(f"{what} is printable text without spaces at its ends.")
    if len(name) > MAX_NAME_LENGTH:
        raise AccountError(f"{what} has at most {MAX_NAME_LENGTH} characters.")


def check_scopes(words: Iterable[str]) -> tuple[Scope, ...]:
    """Return the scopes that the words name, in the order of SCOPES.

    Raises:
        AccountError: no scopes, or an unknown one.
    """
    named = frozenset(words)
    if not named or named - ALL:
        raise AccountError(f"Scopes are one or more of {', '.join(SCOPES)}.")
    return in_order(named)


def in_order(scopes: Iterable[str]) -> tuple[Scope, ...]:
    """Return scopes in the order of SCOPES."""
    named = frozenset(scopes)
    return tuple(scope for scope in SCOPES if scope in named)


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
