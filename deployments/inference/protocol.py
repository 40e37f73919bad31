"""What replicas and the authority over hidden states say to each other: plain values, no Ray.

Words used throughout:
    key: (run, junction), the name of one hidden state.
    session: one replica's standing with the authority; it lives as long as its lease is renewed.
    lease: the time for which a replica may step the states it owns without asking.
    epoch: number of the grant under which a state is owned; a later grant has a higher one.
    step: number of steps since zeros.
    incarnation: one life of the authority's process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Key(NamedTuple):
    run: str
    junction: str


class Version(NamedTuple):
    """Order of two copies of one state: the later grant wins, then the later step."""

    epoch: int
    step: int


class Grant(NamedTuple):
    """Ownership of one state. ``hidden`` is None for a state of zeros."""

    version: Version
    hidden: Floats | None


@dataclass(frozen=True)
class StateBatch:
    """n states on their way: keys and versions, and hidden states (n, 128) in the same order."""

    keys: list[Key] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    hidden: Floats = field(default_factory=lambda: np.empty((0, 0), np.float32))


@dataclass(frozen=True)
class Claim:
    """What a replica knows when it opens a session.

    Attributes:
        incarnation: the authority's life that opened its session before this one, None at its
            first.
        lease_valid: the replica's lease had not run out by its own clock.
        owned: what it may step, and wants to keep.
        given_back: what it has given back lately or was about to. Only a restarted authority may
            need these: the next owner's grant can have died with the earlier life.
        resets: run -> epoch; the run's states of that epoch and before were cleared.
    """

    incarnation: int | None = None
    lease_valid: bool = False
    owned: StateBatch = field(default_factory=StateBatch)
    given_back: StateBatch = field(default_factory=StateBatch)
    resets: dict[str, int] = field(default_factory=dict)


class OpenedSession(NamedTuple):
    """Answer to a claim: keys still owned, and keys whose claimed states were taken over."""

    session: int
    incarnation: int
    lease_s: float
    kept: list[Key]
    accepted: list[Key]


class HiddenStateError(Exception):
    """Base of what keeps a hidden state from being stepped or reset."""


class StaleSessionError(HiddenStateError):
    """The session is not (or no longer) known; open a new one."""


class TooManyStatesError(HiddenStateError):
    """The cap on states is reached; states expire with their runs."""


class AuthorityUnavailableError(HiddenStateError):
    """The authority did not answer: its process is gone, restarting, or overloaded."""


class OutOfReachError(HiddenStateError):
    """A replica has not become the owner of a state within a request's patience."""

    def __init__(self) -> None:
        super().__init__("The junction's hidden state could not be reached in time")


class NonFiniteStateError(HiddenStateError):
    """The step would leave the range of float32; the state is as it was."""

    def __init__(self) -> None:
        super().__init__("obs_data is so large that the hidden state would not be finite")


class Authority(Protocol):
    """The authority as a replica sees it; every call may raise AuthorityUnavailableError."""

    async def open_session(self, replica: str, claim: Claim) -> OpenedSession: ...

    async def listen(self, session: int) -> list[Key]:
        """Renew the lease; wait for recalls, at most ``listen_s``."""

    async def checkout(self, session: int, key: Key) -> Grant:
        """Become the owner, once the present owner has given the state back."""

    async def commit(self, session: int, states: StateBatch, released: list[Key]) -> list[Key]:
        """Store newer states of owned keys, give ``released`` ones back; return refused keys."""

    async def reset(self, run: str) -> int:
        """Forget every state of a run; when this returns, the run starts from zeros.

        Returns:
            The latest epoch; a copy of this run's states with this epoch or an earlier one is void.
        """

    async def close_session(self, session: int) -> None: ...
