"""Who can own a state: a replica, for the time of its session, or the authority itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from deployments.inference.protocol import Key

if TYPE_CHECKING:
    from deployments.inference.authority.table import StateRecord


class Owner:
    """Whoever may change a state."""


class Clearing(Owner):
    """The authority, from asking for a run's states to having cleared them."""


@dataclass(eq=False, slots=True)
class Session(Owner):
    """One replica's standing with the authority, until its lease runs out.

    Dictionaries and no sets, so that their order, and with it every schedule, can be repeated.

    Attributes:
        expires_at: when the lease runs out by the authority's clock.
        owned: what the replica may step.
        waits: its places in queues.
        recalls: what it has been asked to give back and has not given back yet.
        recalled: set while there are recalls that it has not been told.
        probed: someone is asking whether the replica lives.
    """

    number: int
    replica: str
    expires_at: float
    owned: dict[Key, StateRecord] = field(default_factory=dict)
    waits: dict[asyncio.Future[None], None] = field(default_factory=dict)
    recalls: dict[Key, StateRecord] = field(default_factory=dict)
    recalled: asyncio.Event = field(default_factory=asyncio.Event)
    probed: bool = False


class Turn(NamedTuple):
    """A place in the queue for a state; the future is done when the owner has the state."""

    owner: Owner
    granted: asyncio.Future[None]
