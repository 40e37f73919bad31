"""A state, and who can own it: a replica, for the time of its session, or the authority itself."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from deployments.inference.protocol import Floats, Key, Version

NEVER = Version(0, 0)


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


@dataclass(eq=False, slots=True)
class StateRecord:
    """One state. ``hidden`` (128,) is None for zeros; ``waiters`` wait to own it, in order."""

    key: Key
    version: Version = NEVER
    hidden: Floats | None = None
    owner: Owner | None = None
    waiters: deque[Turn] = field(default_factory=deque)

    @property
    def wanted(self) -> bool:
        return any(not turn.granted.done() for turn in self.waiters)
