"""What a token allows, as words of its claim ``scope`` (RFC 8693, section 4.2).

``act``: ask for decisions. ``reset``: clear hidden states. ``read``: watch the console.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

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
