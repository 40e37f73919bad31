"""The protocol that keeps recurrent states, on one page, and its messages as plain values.

Many replicas step states. One authority decides which replica may step which state. A replica
checks a state out once, and then steps its own copy in memory until another replica needs it. No
message is sent between a request and its response; commits are sent after the response.

Terms
    key: (run, entity), the name of one state. A model whose states are separate from those of
        another adds their namespace to the entity. A reset names a run only, so it clears all of
        them.
    partition: one authority's share of the keys in one layout (:mod:`.layout`).
    session: a replica's registration with the authority; it lives while its lease is renewed.
    lease: the time for which a replica may step its states without a message from the authority.
    epoch: the number of the grant under which a state is owned. Later grants have higher epochs.
    step: the number of steps since the initial state.
    term: one process of the authority. Its number is a fencing token: the process takes it from
        the store by compare-and-set, and every write requires that the record of the partition
        still holds it.
    leader lease: the time for which an authority may act after it last confirmed that the record
        holds its term.
    member: a replica that may have a session. The record of the partition lists the members.
    snapshot: a copy of a state in the store. It follows the memory within ``snapshot_period_s``,
        and at once when no replica owns the state.

Messages, in the order of a state's life. Every call goes from a replica to the authority::

    open_session(hello) -> session          first, and again whenever a session is in doubt
    claim(session, part) -> wanted, lost    what the replica holds, in parts; the last part is
                                            answered after every member has claimed
    listen(session) -> keys                 a long poll that is always open: it renews the lease
                                            and returns the keys that others wait for
    checkout(session, key, call) -> grant   waits in a queue while the owner is recalled
    commit(session, states, released, call) -> refused
                                            new steps, and states given back; one at a time;
                                            renews the lease
    reset(session, run, call)               recalls every state of the run and clears it
    read(session, run) -> states            recalls every state of the run and returns a copy
    write(session, run, states, call)       clears the run and begins it anew from these states
    runs(session, limit) -> summaries       what runs there are, as of the latest commits
    close_session(session)                  after the last commit

``call`` numbers the calls that must not run twice. A call that arrives again is refused as stale.

Decisions
    The record of the partition decides which term is current, and which replicas are members.
    The authority decides who owns a state, which version of it counts, and when a run is cleared.
    The owner decides the steps and their order, until it gives the state back.
    Each side's own clock decides about its end of a lease. Times of day are never compared.

Invariants; assertions in the code name the one that they check
    1. One owner: at most one replica may step a state. It is granted again only after it was given
       back, after its owner is known to be dead, or after its owner's lease has expired.
    2. Epochs grow: each grant of a state has a higher epoch than every earlier grant, in every
       term and layout, because an epoch begins with the generation of the layout and the term.
    3. The authority's version of a state never goes back in (epoch, step), except by a reset.
    4. The replica's end of a lease comes first: the replica counts from sending a call, the
       authority from its arrival plus ``lease_margin_s``. The clocks include time asleep.
    5. One commit of a session is in flight at a time, so steps arrive in order.
    6. A reset has an epoch above every state of its run, all of which were recalled before. It is
       in the store before it is answered. A copy with a lower epoch is void, wherever it is. A
       write is a reset, followed by states with higher epochs, in the store before the answer too.
    7. A key's phase in a replica changes only as :mod:`.replica.phases` lists it.
    8. A term grants nothing, and settles no claim, until its predecessor cannot act any more, and
       until every member has claimed, is known to be dead, or has an expired lease while the
       cluster knows no later term. Of several claims to a state, the latest version counts.
       A term of another cluster is succeeded only after it has ended or shown no heartbeat.
    9. A response leaves while every earlier step under the same authority is committed or younger
       than ``loss_bound_s``. Otherwise it waits for its commit.
    10. Only its holder retires a partition, after its last state was given back and written. The
        next layout begins after that.

Cost of each fault
    a replica dies          the steps of the last ``loss_bound_s``; none if responses wait for
                            their commits
    a replica stalls or     as above. Responses wait after ``loss_bound_s``. Uncommitted steps are
    is cut off              void once another replica was granted the state
    a machine is paused,    as above, and for ``loss_bound_s`` after it the replica may answer with
    and its clocks stop     void steps, from before a reset, too; none if responses wait for their
                            commits
    the authority dies      nothing. Responses wait until the next term has received all claims
    a message is lost,      a new session, or a claim that is sent again within the same lease. No
    late or repeated        step is made twice: only the owner steps, and calls run once
    the store fails         nothing. Owners continue stepping, and states move between replicas,
                            unless commits reach the store. Resets, new members and a new term
                            wait for it
    the store loses writes  nothing is stepped until an operator accepts the loss, if a process is
                            left that knows of it, or the cluster does (:mod:`.rolled_back`)
    authority and replica   the steps since the last snapshot, at most ``snapshot_period_s``; none
    die together            if commits reach the store
    everything dies         states begin again from their initial state, or from their snapshots
                            if commits reach the store or with ``restore_after_restart``

The roles are those of a lease manager and its clients in Gray and Cheriton, "Leases: an efficient
fault-tolerant mechanism for distributed file cache consistency", SOSP 1989. Terms are named as in
Ongaro and Ousterhout, "In search of an understandable consensus algorithm", 2014; fencing tokens
as in Kleppmann, "How to do distributed locking", 2016.
"""

from __future__ import annotations

import json
import marshal
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

PROTOCOL = 9
"""Version of the messages. Replicas and authorities of different versions share no partition."""

MAX_RECEIPTS = 64
"""Idempotency keys that are kept with each state: the newest ones."""

Tuple = TypeVar("Tuple", bound=tuple[Any, ...])
Output = tuple[Any, ...]
"""A model's output for one step: JSON scalars, so that a receipt can keep it."""

_SCALARS = frozenset({bool, int, float, str, type(None)})
"""Types that marshal keeps. Of others, such as NumPy's float64, it would keep the bytes."""

_LENGTH = struct.Struct(">I")


def lease_clock() -> float:
    """Return seconds since boot, including time asleep.

    Linux stops its monotonic clock while a machine is suspended. A lease must not stop.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def made(kind: type[Tuple], *columns: Iterable[Any]) -> Iterator[Tuple]:
    """Yield named tuples from columns, in a third of the time that their constructor takes."""
    return map(partial(tuple.__new__, kind), zip(*columns, strict=True))


class Key(NamedTuple):
    run: str
    entity: str

    def in_namespace(self, namespace: str) -> Key:
        """Return the key of the same entity in a namespace; "" is the default one."""
        return Key(self.run, f"{self.entity}@{namespace}") if namespace else self


class Version(NamedTuple):
    """The order of two copies of one state: by epoch, then by step."""

    epoch: int
    step: int


class Receipt(NamedTuple):
    """The outcome of a step whose request had an idempotency key.

    Attributes:
        request_id: the key.
        fingerprint: a digest of the input. The same key with another input is refused.
        step: the number of the step.
        output: what was answered.
    """

    request_id: str
    fingerprint: str
    step: int
    output: Output

    @classmethod
    def from_json(cls, values: list[Any]) -> Receipt:
        request_id, fingerprint, step, *output = values
        return cls(request_id, fingerprint, step, tuple(output))


Receipts = tuple[Receipt, ...]
"""In the order of their steps."""


class Grant(NamedTuple):
    """Ownership of one state. ``state`` is None for the initial state."""

    version: Version
    state: bytes | None
    receipts: Receipts = ()


def _no_states() -> NDArray[np.uint8]:
    return np.empty((0, 0), np.uint8)


@dataclass(frozen=True)
class StateBatch:
    """n states in a message.

    Attributes:
        keys, versions: n of each.
        states: (n, bytes of one state), in the same order. (n, 0) in an outline, which only names
            states and their versions.
        receipts: by key. A commit has only the receipts of steps that were not committed before.
    """

    keys: list[Key] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    states: NDArray[np.uint8] = field(default_factory=_no_states)
    receipts: dict[Key, Receipts] = field(default_factory=dict)

    def header(self) -> list[Any]:
        """Return all but the states, as plain values: in columns, which take a third of the time.

        The receipts are the number of each key's, and their fields.
        """
        receipts: list[Sequence[Any]] = []
        if self.receipts:
            of_keys = [self.receipts.get(key, ()) for key in self.keys]
            *others, outputs = zip(*chain.from_iterable(of_keys), strict=True)
            if not _SCALARS.issuperset(map(type, chain.from_iterable(outputs))):
                outputs = json.loads(json.dumps(outputs))
            receipts = [list(map(len, of_keys)), *others, outputs]
        return [*_columns(self.keys), *_columns(self.versions), receipts]

    @classmethod
    def from_frame(cls, header: list[Any], states: memoryview) -> StateBatch:
        """Read a batch from its header and the bytes of its states."""
        runs, entities, epochs, steps, receipts = header
        keys = list(made(Key, runs, entities))
        return cls(
            keys,
            list(made(Version, epochs, steps)),
            np.frombuffer(states, np.uint8).reshape(len(keys), -1 if keys else 0),
            _receipts_of(keys, *receipts) if receipts else {},
        )

    def __reduce__(self) -> tuple[Callable[[bytes], StateBatch], tuple[bytes]]:
        # Pickling each value takes several times as long as one frame.
        return _unpickle_batch, (pack_frame(self.header(), self.states),)


def _receipts_of(
    keys: list[Key],
    counts: list[int],
    ids: list[str],
    fingerprints: list[str],
    steps: list[int],
    outputs: list[Sequence[Any]],
) -> dict[Key, Receipts]:
    receipt = made(Receipt, ids, fingerprints, steps, map(tuple, outputs))
    named = zip(keys, counts, strict=True)
    return {key: tuple(islice(receipt, count)) for key, count in named if count}


def _columns(pairs: Sequence[tuple[Any, Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    first, second = zip(*pairs, strict=True) if pairs else ((), ())
    return first, second


def _unpickle_batch(frame: bytes) -> StateBatch:
    # A function, because Ray pickles a class method with all that it refers to.
    return StateBatch.from_frame(*unpack_frame(frame))


def pack_frame(header: Any, states: NDArray[np.uint8]) -> bytes:
    """Return the length of a header (4 bytes, big endian), the header and the states.

    The header has JSON values in the binary form of :mod:`marshal`. JSON itself takes six times as
    long, and both ends are processes of one cluster, which has one version of Python.
    """
    packed = marshal.dumps(header)
    return b"".join((_LENGTH.pack(len(packed)), packed, states.tobytes()))


def unpack_frame(frame: bytes) -> tuple[Any, memoryview]:
    """Return the header of a frame, and the bytes of its states.

    Raises:
        ValueError: not a frame.
    """
    try:
        end = _LENGTH.size + _LENGTH.unpack_from(frame)[0]
        return marshal.loads(frame[_LENGTH.size : end]), memoryview(frame)[end:]
    except (struct.error, EOFError, TypeError) as error:
        raise ValueError(f"not a frame: {error}") from error


class Mark(NamedTuple):
    """How far the store is known to be written: a number of writes, and the term that told it."""

    term: int
    writes: int


NOTHING_SEEN = Mark(0, 0)


@dataclass(frozen=True)
class Hello:
    """A replica's request for a session.

    Attributes:
        replica: the name by which the cluster knows whether this replica is alive.
        generation: of the replica's layout.
        seen: the latest mark that it received.
    """

    replica: str
    generation: int = 0
    seen: Mark = NOTHING_SEEN
    protocol: int = PROTOCOL


@dataclass(frozen=True)
class ClaimPart:
    """A part of what a replica holds when it opens a session.

    Of an outline, the authority asks for the states of which it has no copy of that version.

    Attributes:
        owned: what the replica may step, and wants to keep.
        released: what it gave back lately, or was about to. Only a new term may need these: the
            next owner's grant may have been lost with the earlier term.
        last: whether nothing follows.
        expired: whether all of it was unusable for longer than a run may be idle. It may have been
            cleared since, and the reset forgotten. So a copy replaces an older one of the
            authority, but does not restore a state that the authority does not have.
    """

    owned: StateBatch = field(default_factory=StateBatch)
    released: StateBatch = field(default_factory=StateBatch)
    last: bool = True
    expired: bool = False


class RunSummary(NamedTuple):
    """A run under one authority or all of them.

    Attributes:
        steps: of each entity, as of the latest commit.
        idle_s: since its last use.
        owners: replicas that own some of its states.
    """

    run: str
    steps: dict[str, int]
    idle_s: float
    owners: list[str]


class OpenedSession(NamedTuple):
    session: int
    lease_s: float


@dataclass(frozen=True)
class Claimed:
    """Response to a part of a claim.

    Attributes:
        wanted: keys of an outline whose states are to follow.
        lost: with the last part, of the whole claim: keys that belong to another replica, or were
            granted to others since. The other owned ones stay owned.
    """

    wanted: list[Key] = field(default_factory=list)
    lost: list[Key] = field(default_factory=list)

    def __reduce__(self) -> tuple[Callable[[bytes], Claimed], tuple[bytes]]:
        return _unpickle_claimed, (json.dumps([self.wanted, self.lost]).encode(),)


def _unpickle_claimed(packed: bytes) -> Claimed:
    return Claimed(*([Key(*key) for key in keys] for keys in json.loads(packed)))


class StateError(Exception):
    """Base of the errors that keep a state from being stepped or reset."""


class StaleSessionError(StateError):
    """The session is unknown or has ended; open a new one."""


class TooManyStatesError(StateError):
    """The limit on states is reached; states expire with their runs.

    Attributes:
        retry_after_s: by then a run may have expired. A reset makes room earlier.
    """

    def __init__(self, n_states: int, retry_after_s: int) -> None:
        super().__init__(n_states, retry_after_s)  # the arguments of unpickling
        self.n_states = n_states
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return (
            f"All {self.n_states} hidden states (max_states) are in use. Reset a run, or wait "
            "until an idle one expires"
        )


class AuthorityUnavailableError(StateError):
    """The authority did not answer or may not act: it restarts, or its store is unavailable."""


class DismissedError(StateError):
    """The authority will never serve this replica, which has another layout or protocol."""


class SessionAbandonedError(StateError):
    """This replica cannot keep states any more and is about to be replaced."""

    def __init__(self) -> None:
        super().__init__("This replica cannot keep hidden states any more; Serve replaces it")


class CheckoutTimeoutError(StateError):
    """The replica did not become the owner of a state before the request's timeout."""

    def __init__(self) -> None:
        super().__init__("The hidden state could not be checked out in time")


class KeyReusedError(StateError):
    """The idempotency key belongs to a step with another input; no step is made."""

    def __init__(self) -> None:
        super().__init__("The idempotency key was used with another observation")


class NotBegunError(StateError):
    """The step was to continue a sequence, and its state has made no step; none is made."""

    def __init__(self) -> None:
        super().__init__("The sequence was not started, or has ended")


class OutcomeUnknownError(StateError):
    """The step or reset may have been made or not: it was not confirmed in time."""

    def __init__(self) -> None:
        super().__init__("It was not confirmed in time, and may have been done or not")


class Authority(Protocol):
    """The authority as a replica sees it; every call may raise AuthorityUnavailableError."""

    async def open_session(self, hello: Hello) -> OpenedSession:
        """Begin a session in place of any earlier one of this replica, which ends.

        Raises:
            DismissedError: the replica has another layout or protocol.
        """

    async def claim(self, session: int, part: ClaimPart) -> Claimed: ...

    async def listen(self, session: int) -> list[Key]:
        """Renew the lease; wait for recalls, at most ``listen_s``."""

    async def checkout(self, session: int, key: Key, call: int) -> Grant:
        """Become the owner, once the present owner has given the state back."""

    async def commit(
        self, session: int, states: StateBatch, released: list[Key], call: int
    ) -> list[Key]:
        """Keep newer states of owned keys, take back ``released`` ones; return refused keys."""

    async def reset(self, session: int, run: str, call: int) -> None:
        """Clear every state of a run; when this returns, the run starts from initial states.

        After an error it is unknown whether the run was cleared.
        """

    async def read(self, session: int, run: str) -> StateBatch:
        """Return every state of a run but initial ones, all as of one moment."""

    async def write(self, session: int, run: str, states: StateBatch, call: int) -> None:
        """Clear a run, as ``reset`` does, and begin it anew from these states.

        Args:
            states: of this run. Of the versions, only the steps count.

        Raises:
            TooManyStatesError: the run is as it was.
        """

    async def runs(self, session: int, limit: int) -> list[RunSummary]:
        """Return the runs that were used last, the latest first."""

    async def close_session(self, session: int) -> None:
        """End a session whose states were all given back."""
