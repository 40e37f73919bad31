"""A traced step from its request to the copy in the store."""

from __future__ import annotations

from deployments.stateful.protocol import Key
from deployments.trace_context import CURRENT, Trace
from tests.unit.stateful.models import ENTITIES, MODEL
from tests.unit.stateful.virtual_time import virtual_time
from tests.unit.stateful.world import World, gather, until
from tests.unit.tracing.recorded import links_of, parent_of, recording, trace_of

ONE, OTHER = Trace(1, 2), Trace(3, 4)
SMALL, BIG = ENTITIES[:2]
OBS = 1


@virtual_time
async def test_steps_of_one_batch_share_their_spans():
    world = await World(a_model=MODEL).start()
    stepper = world.replicas[0].batcher
    await gather(*(stepper.submit(Key("run", junction), OBS) for junction in (SMALL, BIG)))
    with recording() as recorded:
        answers = []
        for junction, trace in ((SMALL, ONE), (BIG, OTHER)):
            CURRENT.set(trace)
            answers.append(stepper.submit(Key("run", junction), OBS))
        CURRENT.set(None)
        await gather(*answers)
        await until(lambda: any(span.name == "commit" for span in recorded.all()))
        step, commit = recorded.one("step"), recorded.one("commit")
    assert (parent_of(step), links_of(step), step.attributes) == (ONE, [OTHER], {"rows": 2})
    assert (parent_of(commit), commit.attributes) == (trace_of(step), {"states": 2})


@virtual_time
async def test_the_wait_for_a_state_belongs_to_the_request():
    world = await World(a_model=MODEL).start()
    with recording() as recorded:
        CURRENT.set(ONE)
        answer = world.replicas[0].batcher.submit(Key("run", SMALL), OBS)
        CURRENT.set(None)
        await answer
        wait = recorded.one("wait for the hidden state")
    assert parent_of(wait) == ONE


@virtual_time
async def test_a_commit_of_steps_that_nobody_traces_has_no_span():
    world = await World(a_model=MODEL).start()
    stepper = world.replicas[0].batcher
    with recording() as recorded:
        await stepper.submit(Key("run", SMALL), OBS)
        await until(lambda: world.replicas[0].engine.counts.commits > 0)
        assert recorded.all() == []
