"""Which situations schedules have reached, so that an exploration cannot thin out unseen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.unit.stateful.simulation.history import Asked, Fault, History, Outcome
from tests.unit.stateful.simulation.world import World

LEASE_S = 0.2

EXPECTED = (
    "a reset met a restart of the authority",
    "a reset met a fault of the store",
    "a reset was not confirmed",
    "a partition with answers on both sides",
    "a replica was asked while it was cut off",
    "a replica stalled for longer than its lease, with answers before and after",
    "an authority stalled for longer than its leader_lease",
    "two lives at once",
    "a state actor moved",
    "a claim in parts",
    "a state moved while the store was out of order",
    "a repeated call was refused",
    "a replica closed during a restart of the authority",
    "a replica closed without being heard",
    "a change of layout with states",
    "everything restarted with states",
    "a run expired",
    "a repeated request was answered from a receipt",
    "a repeated request was answered by another replica",
    "a request was cancelled",
    "a message was lost",
    "a message was repeated",
    "a change of the store was made late",
)


def situations(world: World) -> Counter[str]:
    """Return the situations that one schedule has reached, each once."""
    found = Counter(name for name in _situations(world) if name)
    found.update(name for name in world.met if name in EXPECTED)
    return Counter(dict.fromkeys(found, 1))


def _situations(world: World) -> Iterator[str]:
    history, network = world.history, world.network
    for reset in history.resets:
        end = world.loop.now if reset.done is None else reset.done
        for fault in history.faults:
            if fault.overlaps(reset.sent, min(end, reset.sent + 1.0)):
                if fault.who.startswith("seat/") and fault.kind == "dead":
                    yield "a reset met a restart of the authority"
                if "store" in fault.who:
                    yield "a reset met a fault of the store"
        if reset.done is None:
            yield "a reset was not confirmed"
    for fault in history.faults:
        yield from _around(fault, history)
    yield from _repeated(history)
    if any(asked.outcome is Outcome.CANCELLED for asked in history.asked):
        yield "a request was cancelled"
    if network.counts["lost"]:
        yield "a message was lost"
    if network.counts["repeated"]:
        yield "a message was repeated"
    if world.store.counts["made late"]:
        yield "a change of the store was made late"


def _around(fault: Fault, history: History) -> Iterator[str]:
    long = fault.end - fault.begin > LEASE_S
    if fault.kind == "stalled" and long:
        if fault.who.startswith("seat/"):
            yield "an authority stalled for longer than its leader_lease"
        else:
            mine = [a for a in _answers(history) if a.replica == fault.who and a.ended]
            before = any(a.ended and a.ended < fault.begin for a in mine)
            if before and any(a.sent > fault.end for a in mine):
                yield "a replica stalled for longer than its lease, with answers before and after"
    if fault.kind == "cut" and fault.who.startswith("replica"):
        during = [a for a in _answers(history) if a.ended and fault.begin < a.ended < fault.end]
        sides = {a.replica == fault.who.split("|")[0] for a in during}
        if len(sides) == 2:
            yield "a partition with answers on both sides"
    if fault.who == "store" or fault.who.endswith("|store"):
        makers: dict[object, set[str]] = {}
        for a in _answers(history):
            if a.ended and fault.begin < a.ended < fault.end:
                makers.setdefault(a.key, set()).add(a.replica)
        if any(len(replicas) > 1 for replicas in makers.values()):
            yield "a state moved while the store was out of order"


def _answers(history: History) -> list[Asked]:
    return [asked for asked in history.asked if asked.outcome is Outcome.ANSWERED]


def _repeated(history: History) -> Iterator[str]:
    stepped: dict[int, Asked] = {}
    for asked in _answers(history):
        if asked.request_id is None:
            continue
        first = stepped.setdefault(asked.state, asked)
        if first is not asked:
            yield "a repeated request was answered from a receipt"
            if history.made(asked.state).replica != asked.replica:
                yield "a repeated request was answered by another replica"
