"""The situations that schedules reach, so that an exploration does not miss some unnoticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.unit.stateful.simulation.cluster import SimulatedCluster
from tests.unit.stateful.simulation.history import Fault, History, Outcome, Request
from tests.unit.stateful.simulation.network import STORE
from tests.unit.stateful.simulation.times import OPTIONS

EXPECTED = (
    "a reset during a takeover",
    "a reset during a fault of the store",
    "a reset was not confirmed",
    "a run was forked",
    "responses on both sides of a cut",
    "a request was sent to a replica that was cut off",
    "a replica stalled beyond its lease, with responses before and after",
    "a replica suspended beyond its lease, with responses before and after",
    "a replica paused beyond its lease, with responses before and after",
    "an actor stalled beyond its leader lease",
    "an actor suspended beyond its leader lease",
    "an actor paused beyond its leader lease",
    "two processes at once",
    "a state actor moved",
    "a claim in parts",
    "a state moved during a fault of the store",
    "a repeated call was refused",
    "a replica closed during a takeover",
    "a replica closed without a confirmation",
    "a change of layout with states",
    "everything restarted with states",
    "everything restarted with other options",
    "two clusters with one store",
    "a cluster succeeded another one",
    "the policy of runs changed",
    "a canary left a step to the policy in service",
    "the store was rolled back",
    "an operator accepted a store that was rolled back",
    "a run expired",
    "a repeated request was answered from a receipt",
    "a repeated request was answered by another replica",
    "a batch of as many steps as a state keeps keys was repeated",
    "a request was cancelled",
    "a message was lost",
    "a message was repeated",
    "a change of the store was made late",
)


def situations(cluster: SimulatedCluster) -> Counter[str]:
    """Return the situations that one schedule has reached, each once."""
    found = {*_situations(cluster), *cluster.reached}
    return Counter({name: 1 for name in EXPECTED if name in found})


def _situations(cluster: SimulatedCluster) -> Iterator[str]:
    history, network = cluster.history, cluster.network
    for reset in history.resets:
        end = cluster.loop.now if reset.done is None else reset.done
        for fault in history.faults:
            if fault.overlaps(reset.sent, min(end, reset.sent + 1.0)):
                if fault.target.startswith("actor/") and fault.kind == "dead":
                    yield "a reset during a takeover"
                if STORE in fault.target:
                    yield "a reset during a fault of the store"
        if reset.done is None:
            yield "a reset was not confirmed"
    responded = [each for each in history.requests if each.outcome is Outcome.RESPONDED]
    for fault in history.faults:
        yield from _around(fault, responded)
    yield from _repeated(history, responded)
    if any(each.outcome is Outcome.CANCELLED for each in history.requests):
        yield "a request was cancelled"
    if network.counts["lost"]:
        yield "a message was lost"
    if network.counts["repeated"]:
        yield "a message was repeated"
    if cluster.store.counts["made late"]:
        yield "a change of the store was made late"


def _around(fault: Fault, responded: list[Request]) -> Iterator[str]:
    during = [each for each in responded if each.ended and fault.begin < each.ended < fault.end]
    if fault.is_standstill and fault.end - fault.begin > OPTIONS.lease_s:
        mine = [each for each in responded if each.replica == fault.target]
        before = [each for each in mine if each.ended and each.ended < fault.begin]
        if fault.target.startswith("actor/"):
            yield f"an actor {fault.kind} beyond its leader lease"
        elif before and any(each.sent > fault.end for each in mine):
            yield f"a replica {fault.kind} beyond its lease, with responses before and after"
    if fault.kind == "cut" and "replica" in fault.target:
        sides = {each.replica in fault.target.split("|") for each in during}
        if len(sides) == 2:
            yield "responses on both sides of a cut"
    if STORE in fault.target:
        replicas: dict[object, set[str]] = {}
        for each in during:
            replicas.setdefault(each.key, set()).add(each.replica)
        if any(len(names) > 1 for names in replicas.values()):
            yield "a state moved during a fault of the store"


def _repeated(history: History, responded: list[Request]) -> Iterator[str]:
    by_state: dict[int, Request] = {}
    for request in responded:
        if request.request_id is None:
            continue
        first = by_state.setdefault(request.state, request)
        if first is not request:
            yield "a repeated request was answered from a receipt"
            if history.step(request.state).replica != request.replica:
                yield "a repeated request was answered by another replica"
