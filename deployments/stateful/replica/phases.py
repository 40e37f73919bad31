"""Phases of a state in a replica, and the events that change them.

::

                   REQUEST            GRANT             RECALL              RELEASED
    NOT_OWNED ───────> REQUESTED ───────> OWNED ───────────> RELEASING ──────────> NOT_OWNED
                           │ RECALL         ^ GRANT
                           └─> RECALLED ────┘  (then RECALL, one turn of the event loop later)

``DENIED``, ``REFUSED`` and ``NOT_KEPT`` lead back to NOT_OWNED, ``KEPT`` to OWNED.
"""

from __future__ import annotations

from enum import Enum, auto


class Phase(Enum):
    """What a replica may do with the state of a key."""

    NOT_OWNED = auto()  # nothing; it has not asked for it
    REQUESTED = auto()  # a checkout is in flight
    RECALLED = auto()  # the same, and a recall has overtaken the grant
    OWNED = auto()  # step it while the lease is valid
    RELEASING = auto()  # recalled: not stepped any more, and not given back yet


class Event(Enum):
    """A change from one phase to the next."""

    REQUEST = auto()  # the checkout is sent
    GRANT = auto()  # its response arrives, in the session that sent it
    DENIED = auto()  # it fails, or its response belongs to an earlier session
    RECALL = auto()  # the authority wants the state for another replica
    RELEASED = auto()  # the commit that gave it back is acknowledged
    REFUSED = auto()  # its commit or claim is refused: another replica owns it
    KEPT = auto()  # a new session leaves it to this replica
    NOT_KEPT = auto()  # a new session does not


TRANSITIONS: dict[tuple[Phase, Event], Phase] = {
    (Phase.NOT_OWNED, Event.REQUEST): Phase.REQUESTED,
    (Phase.NOT_OWNED, Event.DENIED): Phase.NOT_OWNED,
    (Phase.NOT_OWNED, Event.RECALL): Phase.NOT_OWNED,  # repeated until the release has arrived
    (Phase.NOT_OWNED, Event.KEPT): Phase.OWNED,
    (Phase.REQUESTED, Event.GRANT): Phase.OWNED,
    (Phase.REQUESTED, Event.DENIED): Phase.NOT_OWNED,
    (Phase.REQUESTED, Event.RECALL): Phase.RECALLED,
    (Phase.REQUESTED, Event.KEPT): Phase.OWNED,
    (Phase.REQUESTED, Event.NOT_KEPT): Phase.REQUESTED,  # its grant is for an earlier session
    (Phase.RECALLED, Event.GRANT): Phase.OWNED,  # for one step; the recall is repeated
    (Phase.RECALLED, Event.DENIED): Phase.NOT_OWNED,
    (Phase.RECALLED, Event.RECALL): Phase.RECALLED,
    (Phase.RECALLED, Event.KEPT): Phase.OWNED,
    (Phase.RECALLED, Event.NOT_KEPT): Phase.REQUESTED,  # the recall was of the earlier session
    (Phase.OWNED, Event.DENIED): Phase.OWNED,  # a new session kept it during the checkout
    (Phase.OWNED, Event.RECALL): Phase.RELEASING,
    (Phase.OWNED, Event.REFUSED): Phase.NOT_OWNED,
    (Phase.OWNED, Event.KEPT): Phase.OWNED,
    (Phase.OWNED, Event.NOT_KEPT): Phase.NOT_OWNED,
    (Phase.RELEASING, Event.DENIED): Phase.RELEASING,
    (Phase.RELEASING, Event.RECALL): Phase.RELEASING,
    (Phase.RELEASING, Event.RELEASED): Phase.NOT_OWNED,
    (Phase.RELEASING, Event.REFUSED): Phase.NOT_OWNED,
    (Phase.RELEASING, Event.KEPT): Phase.OWNED,  # recalled while its claim was in flight
    (Phase.RELEASING, Event.NOT_KEPT): Phase.NOT_OWNED,
}
"""All transitions. An event that is not listed for a phase is a defect (invariant 7).

While a claim is in flight its state may be given back and requested again, so KEPT can meet any
phase. While a checkout is in flight a new session may decide about its key, so DENIED can, too."""
