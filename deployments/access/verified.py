"""What a token says that one of our keys has signed."""

from __future__ import annotations

from typing import NamedTuple

from deployments.access.keys import Key

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
