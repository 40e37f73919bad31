"""The protocol of the hidden states on one page, and its messages: plain values, no Ray.

Many replicas step hidden states; one authority decides who may step which. A replica asks for a
state once and then steps its own copy from memory, for as long as nobody else wants it: nothing is
asked between a request and its answer. What was stepped follows behind the answer.

Words
    key: (run, junction), the name of one hidden state. A policy that has hidden states of its own
        beside those of another adds their name to the junction's; so a reset of the run, which
        asks for no junction, clears them all.
    slot, partition: keys fall into a fixed number of hash slots; a partition is one authority's
        share of them in one layout (:mod:`.layout`).
    session: one replica's standing with the authority; it lives as long as its lease is renewed.
    lease: the time for which a replica may step the states it owns without asking.
    epoch: number of the grant under which a state is owned; a later grant has a higher one.
    step: number of steps since zeros.
    incarnation: one life of the authority's process. Its number is taken from the store by
        compare-and-set, which fences off every earlier life: the row of the partition says whose
        turn it is, and nothing is written but under the condition that it still says so.
    leader_lease: the time for which an authority may act since it last saw that the partition is
    its own.
    member: a replica that may have a session. Who is one stands in the row of the partition.
    copy: a state in the store. It follows the memory at a distance, but at once when nobody owns
        the state.

Messages, in the order of a state's life; every call goes from a replica to the authority::

    open_session(hello) -> session          first of all, and again whenever a session is in doubt
    claim(session, part) -> wanted, lost    what the replica holds, in parts; the last one is
                                            answered when every member was heard, and begins the
                                            session's normal life
    listen(session) -> keys                 one is always open: it renews the lease and brings the
                                            keys that somebody else waits for
    checkout(session, key, call) -> grant   waits for its turn; the owner is recalled meanwhile
    commit(session, states, released, call) -> refused
                                            steps, and states given back; one at a time; renews
                                            the lease
    reset(session, run, call)               recalls every state of the run and clears it
    close_session(session)                  the last one, after the last commit

``call`` numbers the calls of a session that must not be carried out twice, in case their messages
are; what comes again is refused as stale.

Who decides what
    The row of the partition decides which life of the authority counts, and who its members are.
    The authority decides who owns a state, which copy of it counts, and when a run is cleared.
    The owner decides the steps, and their order, until it gives the state back.
    The clock of each decides about its own end of a lease; they never compare times of day.

Invariants; assertions in the code name the one that they check
    1. One owner: at most one replica may step a state. It is granted again only when it was given
       back, when its owner is known to be dead, or when its owner's lease has run out.
    2. Epochs grow: each grant of a state has a higher epoch than every grant of it before, those
       of earlier lives included, for an epoch begins with the generation of the layout and the
       incarnation.
    3. What the authority keeps of a state never goes back in (epoch, step), but by a reset.
    4. The replica's end of a lease comes first: it counts from the sending of a call, the authority
       from its arrival, and ``lease_margin_s`` longer. Clocks go on while a machine sleeps.
    5. One commit of a session is under way at a time, so steps arrive in their order.
    6. A reset has an epoch above every state of its run, which were all taken from their owners
       before, and is in the store before it is answered. A copy with an earlier epoch is void,
       whoever brings it.
    7. A key's phase in a replica changes only as :mod:`.replica.phases` lists it.
    8. A life grants nothing, and settles no claim, until its predecessor cannot act any more, and
       until every member of it has claimed what it holds, is known to be dead, or is at the end of
       its lease while the cluster knows no later life that it may be talking to. Of several claims
       to a state the one with the latest version counts.
    9. An answer leaves while every step before it, of states under the same authority, is
       committed, or is younger than ``loss_bound_s``; otherwise it waits for its commit.
    10. A partition is given up only by its holder, after its last state was given back and
       written; the next layout begins after that.

What a fault costs
    a replica dies          steps of the last ``loss_bound_s``; none in strict mode, where every
                            answer waits for its commit
    it pauses, or is cut    as above: answers wait from ``loss_bound_s`` on, and what was not
    off                     committed when its lease ran out is void once another was granted it
    the authority dies      nothing. Answers wait until the next life has heard its members
    a message is lost,      a new session, or a claim that is sent again within the same lease; a
    late, or comes twice    step is never made twice, because only its owner steps, and no call that
                            changes an owner is carried out twice
    the store fails         nothing; owners go on stepping and states move. Resets, new members and
                            a new life of the authority wait for the store
    authority and replica   what the replica's states have been stepped since their last copy,
    die together            ``snapshot_period_s``; nothing with ``durable``, where a commit is
                            acknowledged when its copy is in the store
    everything dies         states begin from zeros, or from their last copy in the store with
                            ``restore_after_restart``

The roles are those of a lease manager and its clients in Gray and Cheriton, "Leases: an efficient
fault-tolerant mechanism for distributed file cache consistency", SOSP 1989; the incarnation is a
fencing token as in Kleppmann, "How to do distributed locking", 2016.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

PROTOCOL = 4
"""Version of the messages. Replicas and authorities of different ones never share a partition."""

MAX_RECEIPTS = 64
"""Idempotency keys that are remembered with each state: the newest ones."""

Floats = NDArray[np.float32]

_LENGTH = struct.Struct(">I")


class Key(NamedTuple):
    run: str
    junction: str

    def among(self, states: str) -> Key:
        """Return the key of the same junction among hidden states of another name, "" for none."""
        return Key(self.run, f"{self.junction}@{states}") if states else self


class Version(NamedTuple):
    """Order of two copies of one state: the later grant wins, then the later step."""

    epoch: int
    step: int


class Receipt(NamedTuple):
    """The outcome of a step whose request bore an idempotency key.

    Attributes:
        request_id: the key.
        fingerprint: of the observation; the same key with another observation is refused.
        step: number of the step, whose action and confidence were answered.
    """

    request_id: str
    fingerprint: str
    step: int
    action: int
    confidence: float


Receipts = tuple[Receipt, ...]
"""In the order of their steps."""


class Grant(NamedTuple):
    """Ownership of one state. ``hidden`` is None for a state of zeros."""

    version: Version
    hidden: Floats | None
    receipts: Receipts = ()


@dataclass(frozen=True)
class StateBatch:
    """n states on their way, as bytes: to pickle each value takes several times as long.

    Attributes:
        keys, versions: n of each.
        hidden: (n, 128), in the same order.
        receipts: by key, of those that have any; in a commit only the receipts of steps that have
            not been committed yet.
    """

    keys: list[Key] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    hidden: Floats = field(default_factory=lambda: np.empty((0, 0), np.float32))
    receipts: dict[Key, Receipts] = field(default_factory=dict)

    def pack(self) -> bytes:
        """Return the length of a JSON header, the header, and the hidden states as float32."""
        receipts = [[key, each] for key, each in self.receipts.items()]
        header = json.dumps([self.keys, self.versions, receipts]).encode()
        return b"".join((_LENGTH.pack(len(header)), header, self.hidden.tobytes()))

    @classmethod
    def unpack(cls, packed: bytes | memoryview) -> StateBatch:
        """Read what ``pack`` has written.

        Raises:
            ValueError: it has not.
        """
        try:
            start = _LENGTH.size + _LENGTH.unpack_from(packed)[0]
            keys, versions, receipts = json.loads(bytes(packed[_LENGTH.size : start]))
            hidden = np.frombuffer(packed, np.float32, offset=start)
            return cls(
                list(map(Key._make, keys)),
                list(map(Version._make, versions)),
                hidden.reshape(len(keys), -1 if keys else 0),
                {Key(*key): tuple(Receipt(*one) for one in each) for key, each in receipts},
            )
        except (struct.error, TypeError) as error:
            raise ValueError(f"not a batch of states: {error}") from error

    def __reduce__(self) -> tuple[Callable[[bytes], StateBatch], tuple[bytes]]:
        return _unpack_states, (self.pack(),)


def _unpack_states(packed: bytes) -> StateBatch:
    # Ray would pickle a class method with all that it refers to.
    return StateBatch.unpack(packed)


@dataclass(frozen=True)
class Hello:
    """What a replica says first.

    Attributes:
        replica: a name by which the authority can ask whether this replica lives.
        generation: of the layout that the replica goes by.
    """

    replica: str
    generation: int = 0
    protocol: int = PROTOCOL


@dataclass(frozen=True)
class ClaimPart:
    """A part of what a replica holds when it opens a session.

    Batches without hidden states, (n, 0), are outlines: the authority asks for those of which it
    has no copy of the same version.

    Attributes:
        owned: what it may step, and wants to keep.
        given_back: what it has given back lately or was about to. Only a new life of the authority
            may need these: the next owner's grant can have died with the earlier one.
        last: nothing follows.
    """

    owned: StateBatch = field(default_factory=StateBatch)
    given_back: StateBatch = field(default_factory=StateBatch)
    last: bool = True


class OpenedSession(NamedTuple):
    session: int
    lease_s: float


@dataclass(frozen=True)
class Claimed:
    """Answer to a part of a claim.

    Attributes:
        wanted: keys of an outline whose hidden states are to follow.
        lost: with the last part, of the whole claim: keys of states that are somebody else's, or
            have been given to others since. The other owned ones are still owned.
    """

    wanted: list[Key] = field(default_factory=list)
    lost: list[Key] = field(default_factory=list)

    def __reduce__(self) -> tuple[Callable[[bytes], Claimed], tuple[bytes]]:
        return _unpack_claimed, (json.dumps([self.wanted, self.lost]).encode(),)


def _unpack_claimed(packed: bytes) -> Claimed:
    return Claimed(*([Key(*key) for key in keys] for keys in json.loads(packed)))


class HiddenStateError(Exception):
    """Base of what keeps a hidden state from being stepped or reset."""


class StaleSessionError(HiddenStateError):
    """The session is not (or no longer) known; open a new one."""


class TooManyStatesError(HiddenStateError):
    """The cap on states is reached; states expire with their runs.

    Attributes:
        retry_after_s: by then a run may have expired. One that is reset makes room earlier.
    """

    def __init__(self, n_states: int, retry_after_s: int) -> None:
        super().__init__(n_states, retry_after_s)  # which are passed when it is unpickled
        self.n_states = n_states
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return (
            f"{self.n_states} hidden states are kept already; a run that is reset, or idle for "
            "long, makes room"
        )


class AuthorityUnavailableError(HiddenStateError):
    """The authority did not answer, or may not act: restarting, overloaded, without its store."""


class DismissedError(HiddenStateError):
    """The authority will never serve this replica: it goes by another layout or protocol."""


class CheckoutTimeoutError(HiddenStateError):
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
        super().__init__("It was not confirmed in time, and may have been done or not")


class Authority(Protocol):
    """The authority as a replica sees it; every call may raise AuthorityUnavailableError."""

    async def open_session(self, hello: Hello) -> OpenedSession:
        """Begin a session in place of any earlier one of this replica, which ends.

        Raises:
            DismissedError: of another layout or protocol.
        """

    async def claim(self, session: int, part: ClaimPart) -> Claimed: ...

    async def listen(self, session: int) -> list[Key]:
        """Renew the lease; wait for recalls, at most ``listen_s``."""

    async def checkout(self, session: int, key: Key, call: int) -> Grant:
        """Become the owner, once the present owner has given the state back."""

    async def commit(
        self, session: int, states: StateBatch, released: list[Key], call: int
    ) -> list[Key]:
        """Keep newer states of owned keys, take ``released`` ones back; return refused keys."""

    async def reset(self, session: int, run: str, call: int) -> None:
        """Forget every state of a run; when this returns, the run starts from zeros.

        An error leaves open whether it was done.
        """

    async def close_session(self, session: int) -> None:
        """End a session; when this returns, what it has committed is in the store."""
