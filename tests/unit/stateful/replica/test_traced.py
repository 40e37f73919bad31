"""A traced step, from its request to its commit."""

from __future__ import annotations

from deployments.stateful.protocol import Key
from deployments.stateful.replica.batcher import Batcher
from deployments.stateful.replica.engine import StatefulEngine
from deployments.stateful.replica.leases import StateLeases
from deployments.trace_context import CURRENT, Trace
from tests.unit.stateful.authorities import OPTIONS, make_authority, now
from tests.unit.stateful.models import ENTITIES, MODEL
from tests.unit.stateful.simulation.scenario import simulated, until
from tests.unit.tracing.recorded import links_of, parent_of, recording, trace_of

ONE, OTHER = Trace(1, 2), Trace(3, 4)
KEYS = [Key("run", entity) for entity in ENTITIES[:2]]


async def start() -> tuple[StatefulEngine, Batcher]:
    authority = await make_authority()
    leases = StateLeases(authority, "replica", MODEL.initial_state, OPTIONS, clock=now)
    engine = StatefulEngine([leases], OPTIONS)
    await engine.start()
    return engine, Batcher(engine, lambda: MODEL)


@simulated
async def test_steps_of_one_batch_share_their_spans():
    _, batcher = await start()
    for key in KEYS:
        await batcher.submit(key, 1)
    with recording() as recorded:
        responses = []
        for key, trace in zip(KEYS, (ONE, OTHER), strict=True):
            CURRENT.set(trace)
            responses.append(batcher.submit(key, 1))
        CURRENT.set(None)
        for response in responses:
            await response
        await until(lambda: any(span.name == "write snapshots" for span in recorded.all()))
        step, commit, write = map(recorded.one, ("step", "commit", "write snapshots"))
    assert (parent_of(step), links_of(step), step.attributes) == (ONE, [OTHER], {"rows": 2})
    assert (parent_of(commit), commit.attributes) == (trace_of(step), {"states": 2})
    assert (parent_of(write), write.attributes) == (trace_of(commit), {"states": 2})


@simulated
async def test_the_wait_for_a_state_belongs_to_the_request():
    _, batcher = await start()
    with recording() as recorded:
        CURRENT.set(ONE)
        response = batcher.submit(KEYS[0], 1)
        CURRENT.set(None)
        await response
        wait = recorded.one("wait for the hidden state")
    assert parent_of(wait) == ONE


@simulated
async def test_a_commit_without_traced_steps_has_no_span():
    engine, batcher = await start()
    with recording() as recorded:
        await batcher.submit(KEYS[0], 1)
        await until(lambda: engine.counts.commits > 0)
        assert recorded.all() == []
