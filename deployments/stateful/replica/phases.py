"""What a replica may do with a state, and how that changes: one phase for each key.

::

              ASK              GRANT             RECALL              RELEASED
    FOREIGN ───────> ASKED ───────────> OWNED ───────────> LEAVING ───────────> FOREIGN
                       │ RECALL           ^ GRANT
                       └──> ASKED_BACK ───┘   (then RECALL, one turn of the event loop later)

``DENIED``, ``REFUSED`` and ``NOT_KEPT`` lead back to FOREIGN, ``KEPT`` to OWNED.
"""

from __future__ import annotations

from enum import Enum, auto


class Phase(Enum):
    """Where a key stands with this replica."""

    FOREIGN = auto()  # not this replica's, and not asked for
    ASKED = auto()  # a checkout is under way
    ASKED_BACK = auto()  # the same, and the recall has overtaken the grant
    OWNED = auto()  # may be stepped while the lease is valid
    LEAVING = auto()  # recalled: not stepped any more, and not given back yet


class Event(Enum):
    """What moves a key from one phase to the next."""

    ASK = auto()  # the checkout goes out
    GRANT = auto()  # its answer comes, in the session that asked
    DENIED = auto()  # it fails, or its answer belongs to an earlier session
    RECALL = auto()  # the authority wants the state for somebody else
    RELEASED = auto()  # the commit that gave it back is acknowledged
    REFUSED = auto()  # its commit or its claim is refused: somebody else owns it
    KEPT = auto()  # a new session leaves it to this replica
    NOT_KEPT = auto()  # a new session does not


TRANSITIONS: dict[tuple[Phase, Event], Phase] = {
    (Phase.FOREIGN, Event.ASK): Phase.ASKED,
    (Phase.FOREIGN, Event.DENIED): Phase.FOREIGN,
    (Phase.FOREIGN, Event.RECALL): Phase.FOREIGN,  # repeated until the release has arrived
    (Phase.FOREIGN, Event.KEPT): Phase.OWNED,
    (Phase.ASKED, Event.GRANT): Phase.OWNED,
    (Phase.ASKED, Event.DENIED): Phase.FOREIGN,
    (Phase.ASKED, Event.RECALL): Phase.ASKED_BACK,
    (Phase.ASKED, Event.KEPT): Phase.OWNED,
    (Phase.ASKED, Event.NOT_KEPT): Phase.ASKED,  # its answer will belong to an earlier session
    (Phase.ASKED_BACK, Event.GRANT): Phase.OWNED,  # for one step; the recall comes again
    (Phase.ASKED_BACK, Event.DENIED): Phase.FOREIGN,
    (Phase.ASKED_BACK, Event.RECALL): Phase.ASKED_BACK,
    (Phase.ASKED_BACK, Event.KEPT): Phase.OWNED,
    (Phase.ASKED_BACK, Event.NOT_KEPT): Phase.ASKED,  # the recall was of the earlier session
    (Phase.OWNED, Event.DENIED): Phase.OWNED,  # by a new session, while the checkout was waited for
    (Phase.OWNED, Event.RECALL): Phase.LEAVING,
    (Phase.OWNED, Event.REFUSED): Phase.FOREIGN,
    (Phase.OWNED, Event.KEPT): Phase.OWNED,
    (Phase.OWNED, Event.NOT_KEPT): Phase.FOREIGN,
    (Phase.LEAVING, Event.DENIED): Phase.LEAVING,
    (Phase.LEAVING, Event.RECALL): Phase.LEAVING,
    (Phase.LEAVING, Event.RELEASED): Phase.FOREIGN,
    (Phase.LEAVING, Event.REFUSED): Phase.FOREIGN,
    (Phase.LEAVING, Event.KEPT): Phase.OWNED,  # recalled while its claim was under way
    (Phase.LEAVING, Event.NOT_KEPT): Phase.FOREIGN,
}
"""Every change there is. An event that is not listed for a phase is a defect (invariant 7).

A claim is on its way while its state may be given back and asked for anew, so KEPT can meet any
phase; and while a checkout is waited for, a new session may have decided about its key, so DENIED
can."""
