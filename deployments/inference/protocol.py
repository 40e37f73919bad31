"""The protocol of the hidden states on one page, and its messages: plain values, no Ray.

Many replicas step hidden states; one authority decides who may step which. A replica asks for a
state once and then steps its own copy from memory, for as long as nobody else wants it: nothing is
asked between a request and its answer. What was stepped follows behind the answer.

Words
    key: (run, junction), the name of one hidden state.
    session: one replica's standing with the authority; it lives as long as its lease is renewed.
    lease: the time for which a replica may step the states it owns without asking.
    epoch: number of the grant under which a state is owned; a later grant has a higher one.
    step: number of steps since zeros.
    incarnation: one life of the authority's process.

Messages, in the order of a state's life; every call goes from a replica to the authority::

    open_session(claim) -> session, kept     first of all, and again whenever a session is in doubt:
                                             what is held is claimed, and kept or lost
    listen() -> keys                         one is always open: it renews the lease and brings the
                                             keys that somebody else waits for
    checkout(key) -> grant                   waits for its turn; the owner is recalled meanwhile
    commit(states, released) -> refused      steps, and states given back; one call at a time;
                                             renews the lease
    reset(run) -> epoch                      recalls every state of the run and clears it
    close_session()                          the last one, after the last commit

Who decides what
    The authority decides who owns a state, which copy of it counts, and when a run is cleared.
    The owner decides the steps, and their order, until it gives the state back.
    The clock of each decides about its own end of a lease; they never compare times of day.

Invariants; assertions in the code name the one that they check
    1. One owner: at most one replica may step a state. It is granted again only when it was given
       back, when its owner is known to be dead, or when its owner's lease has run out.
    2. Epochs grow: each grant of a state has a higher epoch than every grant of it before.
    3. What the authority keeps of a state never goes back in (epoch, step), but by a reset.
    4. The replica's end of a lease comes first: it counts from the sending of a call, the authority
       from its arrival, and ``lease_margin_s`` longer.
    5. One commit of a session is under way at a time, so steps arrive in their order.
    6. A reset answers when every state of its run has been taken from its owner and cleared, those
       that came meanwhile included. It has an epoch of its own, and whatever has an earlier one is
       void.
    7. A key's phase in a replica changes only as :mod:`.replica.phases` lists it.
    8. A restarted authority grants nothing until every lease of its earlier life has run out.

What a fault costs
    a replica dies          the steps since its last commit, which is due ``commit_delay_s`` after
                            a step; none in strict mode, where the commit comes before the answer
    it pauses, or is cut    as above; it stops by itself when its lease runs out, and what it
    off                     stepped since its last commit is refused afterwards
    the authority dies      a pause of a lease for states that move; owners go on while their lease
                            lasts, and claim what they hold from its next life
    a message is lost       a new session; a step is never made twice, because only its owner steps
    everything dies         states begin from zeros, or from their last copy in the store with
                            ``restore_after_restart``

Where it falls short: a restarted authority believes what replicas claim, for nothing durable tells
it what was true. Two faults within a lease can mislead it: a state may then lose more than the
table says, or come back after a reset when the replica that was asked for it has gone.
Commits that hang without failing are noticed after seconds, not after ``commit_delay_s``.

The roles are those of a lease manager and its clients in Gray and Cheriton, "Leases: an efficient
fault-tolerant mechanism for distributed file cache consistency", SOSP 1989.
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


class KeyReusedError(HiddenStateError):
    """The idempotency key stands for a step with another observation; no step is made."""

    def __init__(self) -> None:
        super().__init__("The idempotency key was used with another observation")


class OutcomeUnknownError(HiddenStateError):
    """The step, or the reset, may have been made or not: its commit was not confirmed in time."""

    def __init__(self) -> None:
        super().__init__("It is not known whether the request has changed the hidden state")


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
            Its epoch; a copy of the run's states with this epoch or an earlier one is void.
        """

    async def close_session(self, session: int) -> None: ...
