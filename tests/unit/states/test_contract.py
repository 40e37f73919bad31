"""One contract for every implementation of the table: random calls against a model of the promises.

Another implementation is one more entry of :data:`.implementations.IMPLEMENTATIONS`.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from copy import deepcopy
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from deployments.stateful.batcher import Batcher, Shard
from deployments.stateful.calls import RowOutcomes
from deployments.stateful.engine import Engine
from deployments.stateful.errors import TooManyStatesError
from deployments.stateful.row import Key, name_of
from deployments.stateful.shards import shard_of
from tests.unit.states.implementations import (
    IMPLEMENTATIONS,
    Implementation,
    InterruptedShard,
    Pause,
    States,
)
from tests.unit.states.promises import Policy, Promises, Step
from tests.unit.states.tape import FORM, Tape, answers_of, print_of, rows_of

RUNS = ["a", "ab", "b", "c"]
ENTITIES = ["x", "xy", "z"]
LIMIT = 9

STABLE = Policy("")
POLICIES = [STABLE, Policy("canary", refused=5), Policy("strict", refused=3)]

steps = st.builds(
    Step,
    st.builds(Key, st.sampled_from(RUNS), st.sampled_from(ENTITIES)),
    st.integers(1, 40),
    st.none() | st.sampled_from(["k1", "k2", "k3", "k4"]),
    st.booleans(),
)
calls = st.lists(st.lists(steps, min_size=1, max_size=6), min_size=1, max_size=4)
policies = st.sampled_from(POLICIES)
runs = st.sampled_from(RUNS)
request_ids = st.none() | st.sampled_from(["o1", "o2"])
tapes = st.dictionaries(
    st.sampled_from(ENTITIES),
    st.tuples(st.integers(1, 1 << 33), st.lists(st.integers(0, 9), min_size=8, max_size=8)),
)

changes = st.one_of(
    st.tuples(
        st.just("reset"), runs, st.sampled_from(["reset", "end"]), request_ids, st.integers(0, 9)
    ),
    st.tuples(st.just("write"), runs, tapes, policies, request_ids),
    st.tuples(st.just("fork"), runs, runs, policies, request_ids),
    st.tuples(st.just("evict"), runs),
)


class Replica:
    """An engine with a batcher for each policy."""

    def __init__(self, shards: Sequence[Shard], durable: bool) -> None:
        self.engine = Engine(shards, FORM, durable)
        self.batchers: dict[Policy, Batcher] = {}
        for policy in POLICIES:
            same_model = repeat(Tape(policy.refused)).__next__
            self.batchers[policy] = self.engine.batcher(same_model, policy.name)

    async def step(self, policy: Policy, calls: Sequence[Sequence[Step]]) -> list[Any]:
        """Make calls at once, of which those of one step are single ones; return all outcomes."""
        batcher, pending = self.batchers[policy], list[Awaitable[Any]]()
        for call in calls:
            key, number, request_id, continues = call[0]
            if len(call) == 1 and not continues:
                print = 0 if request_id is None else print_of(number)
                response = batcher.submit(key, number, request_id, print)
                pending.append(asyncio.gather(response, return_exceptions=True))
            else:
                outcomes = RowOutcomes(len(call))
                keys, numbers, ids, _ = zip(*call, strict=True)
                rows = rows_of(keys, numbers, ids, continues)
                batcher.submit_rows(rows, range(len(call)), outcomes)
                pending.append(answers_of(outcomes))
        found = await asyncio.gather(*pending)
        every = [result for answers in found for result in answers]
        return [type(each) if isinstance(each, Exception) else tuple(each) for each in every]


Act = Callable[[Replica], Awaitable[Any]]
Check = Callable[[Any], None]
Operation = tuple[str, str, str | None]  # kind, run and idempotency key


class Contract(RuleBasedStateMachine):
    """Random calls, each of which is compared with the promises."""

    implementation: Implementation
    before: Promises | None = None  # another replica has acted in the turn
    n_keys = 0

    def __init__(self) -> None:
        super().__init__()
        self.promises = Promises()
        self.copies: dict[int, tuple[int, dict[bytes, bytes]]] = {}
        self.loop = asyncio.new_event_loop()
        self.stack = AsyncExitStack()
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm", prefix="greenwave-test-")
        self.wait(self.open())

    def wait(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    async def open(self) -> None:
        opened = type(self).implementation(Path(self.folder.name), LIMIT)
        self.states: States = await self.stack.enter_async_context(opened)
        self.pause = Pause(self.connect)
        shards = [InterruptedShard(shard, self.pause) for shard in self.states.connect()]
        self.replicas = [Replica(shards, self.states.durable), self.connect()]

    def connect(self) -> Replica:
        return Replica(self.states.connect(), self.states.durable)

    def teardown(self) -> None:
        self.wait(self.stack.aclose())
        self.wait(self.loop.shutdown_default_executor())
        self.loop.close()
        self.folder.cleanup()

    def shard_of(self, run: str) -> int:
        return shard_of(run, len(self.states.tables))

    def n_rows(self, run: str) -> int:
        """Return the number of rows in the shard of a run."""
        shard = self.shard_of(run)
        return self.promises.n_rows({each for each in RUNS if self.shard_of(each) == shard})

    # Calls: each is what a replica does, and the check of what it has answered

    def to_step(self, policy: Policy, calls: Sequence[Sequence[Step]]) -> tuple[Act, Check]:
        calls = [[step._replace(continues=call[0].continues) for step in call] for call in calls]

        def check(found: Sequence[Any]) -> None:
            flat = [step for call in calls for step in call]
            for key in dict.fromkeys(step.key for step in flat):
                rows = [row for row, step in enumerate(flat) if step.key == key]
                self.check_state(policy, [flat[row] for row in rows], [found[row] for row in rows])
            for step, outcome in zip(flat, found, strict=True):
                if outcome is TooManyStatesError:
                    assert self.n_rows(step.key.run) == LIMIT

        return lambda replica: replica.step(policy, calls), check

    def check_state(self, policy: Policy, steps: Sequence[Step], found: Sequence[Any]) -> None:
        promises, before = self.promises, self.before
        was_read = before is not None and name_of(*steps[0].key) in self.pause.seen
        if before and was_read and not before.would_step(policy, steps):
            promises = before  # what changes no state is answered from what was read
        assert list(found) == promises.turn(policy, steps, found)

    def to_reset(
        self, run: str, kind: str, request_id: str | None, result: Any
    ) -> tuple[Act, Check]:
        def act(replica: Replica) -> Awaitable[Any]:
            return replica.engine.reset(run, request_id, kind=kind, result=result)

        def check(found: Any) -> None:
            end = partial(Promises.replace, run=run, states={})
            self.check_changed((kind, run, request_id), result, end, found)

        return act, check

    def to_write(
        self, run: str, tapes: dict[str, Any], policy: Policy, request_id: str | None
    ) -> tuple[Act, Check]:
        states = {entity: (n, np.array(tape, "<u4")) for entity, (n, tape) in tapes.items()}

        def act(replica: Replica) -> Awaitable[Any]:
            return caught(replica.engine.write(run, states, policy.name, request_id))

        def check(found: Any) -> None:
            n_steps = {entity: n for entity, (n, _) in tapes.items()}
            new = {entity: (n, tuple(tape)) for entity, (n, tape) in tapes.items()}
            write = partial(Promises.write, run=run, tapes=new, policy=policy.name)
            self.check_changed(("import", run, request_id), n_steps, write, found)

        return act, check

    def to_fork(
        self, run: str, fork: str, policy: Policy, request_id: str | None
    ) -> tuple[Act, Check]:
        def act(replica: Replica) -> Awaitable[Any]:
            return caught(replica.engine.fork(run, fork, policy.name, request_id))

        def check(found: Any) -> None:
            n_steps = {entity: n for entity, (n, _) in self.promises.read(run, policy.name).items()}
            operation = "fork", fork, request_id
            if n_steps or operation in self.promises.operations:
                copy = partial(Promises.fork, run=run, fork=fork)
                self.check_changed(operation, n_steps, copy, found)
            else:
                assert found == {}

        return act, check

    def check_changed(
        self, operation: Operation, result: Any, change: Callable[[Promises], None], found: Any
    ) -> None:
        done, (_, run, request_id) = self.promises.operations, operation
        if operation in done:
            assert found == done[operation]
            return
        before = deepcopy(self.promises)
        change(self.promises)
        if self.promises.run(run) and self.n_rows(run) > LIMIT:
            self.promises = before
            assert found is TooManyStatesError
            return
        assert found == result
        if request_id is not None:
            done[operation] = result

    def to_evict(self, run: str) -> tuple[Act, Check]:
        async def act(replica: Replica) -> None:
            table = self.states.tables[self.shard_of(run)]
            table.evict(run.encode(), lambda used: True)

        return act, lambda found: self.promises.replace(run, {})

    # Rules

    def play(self, call: tuple[Act, Check], replica: int) -> None:
        act, check = call
        check(self.wait(act(self.replicas[replica])))

    @rule(replica=st.integers(0, 1), policy=policies, calls=calls)
    def steps_are_made(self, replica: int, policy: Policy, calls: list[list[Step]]) -> None:
        self.play(self.to_step(policy, calls), replica)

    @rule(replica=st.integers(0, 1), run=runs, numbers=st.integers(65, 70))
    def many_keys_are_used(self, replica: int, run: str, numbers: int) -> None:
        self.n_keys += numbers
        call = [Step(Key(run, "x"), n + 1, f"{self.n_keys}-{n}") for n in range(numbers)]
        self.play(self.to_step(STABLE, [call]), replica)
        self.play(self.to_step(STABLE, [call[-64:-60], call[-65:-64]]), replica)

    @rule(replica=st.integers(0, 1), change=changes)
    def run_is_changed(self, replica: int, change: tuple[Any, ...]) -> None:
        self.play(getattr(self, f"to_{change[0]}")(*change[1:]), replica)

    @rule(policy=policies, calls=calls, call=st.tuples(st.just("step"), policies, calls) | changes)
    def another_replica_comes_between(
        self, policy: Policy, calls: list[list[Step]], call: tuple[Any, ...]
    ) -> None:
        """Let another replica act between the reads of a turn and its write."""
        name, *arguments = call
        other, check_other = getattr(self, f"to_{name}")(*arguments)
        found: list[Any] = []

        async def act(replica: Any) -> None:
            found.append(await other(replica))

        self.pause.act, self.pause.seen = act, set()
        make, check = self.to_step(policy, calls)
        answered = self.wait(make(self.replicas[0]))
        self.wait(self.pause.take())  # if the turn has written nothing
        before = deepcopy(self.promises)
        check_other(found[0])
        self.before = before
        check(answered)
        self.before = None

    # What must be true after each call

    @invariant()
    def table_has_the_promised_states(self) -> None:
        self.wait(self.check_states())

    async def check_states(self) -> None:
        found: dict[tuple[str, str, str], int] = {}
        for run in RUNS:
            for policy in POLICIES:
                states = await self.replicas[1].engine.read(run, policy.name)
                tapes = {entity: (n, tuple(tape.tolist())) for entity, (n, tape) in states.items()}
                assert tapes == self.promises.read(run, policy.name)
                found |= {(run, entity, policy.name): n for entity, (n, _) in tapes.items()}
            assert self.states.tables[self.shard_of(run)].counts()[0] == self.n_rows(run)
        listed = await self.replicas[0].engine.runs(len(RUNS))
        assert all(each.idle_s < 60 for each in listed)
        assert found == {
            (each.run, entity, policy.name): n
            for each in listed
            for policy in POLICIES
            for entity, n in each.steps_of(policy.name).items()
        }

    @invariant()
    def log_has_every_change(self) -> None:
        """Copy the rows that the log names, as a home does: the copy is the table."""
        for shard, table in enumerate(self.states.tables):
            since, rows = self.copies.get(shard, (0, {}))
            number, names = table.changed(since)
            assert names is not None
            rows = {name: row for name, row in rows.items() if name not in names}
            rows |= table.get(sorted(names))
            self.copies[shard] = number, rows
            assert table.counts() == (len(rows), LIMIT)
            assert len(rows) <= LIMIT
            assert rows == {name: row for run in RUNS for name, row in table.rows_of(run).items()}


async def caught(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except TooManyStatesError as error:
        return type(error)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_every_call_keeps_the_promises(implementation):
    machine = type("Contract", (Contract,), {"implementation": IMPLEMENTATIONS[implementation]})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40,
            phases=set(settings().phases) - {Phase.explain},
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
