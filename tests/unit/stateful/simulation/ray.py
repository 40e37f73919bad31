"""Ray as far as hidden states can tell: it starts state actors, again and sometimes too early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from deployments.stateful.authority.authority import StateAuthority
from deployments.stateful.authority.fenced_writer import PartitionRetiredError
from deployments.stateful.layout import Partition
from deployments.stateful.protocol import AuthorityUnavailableError, StateError
from tests.unit.stateful.simulation.history import Fault
from tests.unit.stateful.simulation.store import StoreClient
from tests.unit.stateful.simulation.surroundings import Surroundings
from tests.unit.stateful.simulation.times import ANSWER_TIMEOUT_S, GIVE_UP_TIMEOUT_S

RAY = "ray"
Failed = Callable[[BaseException], None]


class Life:
    """One process of a state actor, and the cluster as it sees it.

    Attributes:
        node: its place in the network; every life on a partition has the same.
    """

    def __init__(self, world: Surroundings, actor: Actor) -> None:
        world.n_lives += 1
        self.session = world.session
        self.process = f"node/{world.n_lives}/0"
        self.node = actor.node
        self.runs = world.new_process(self.process)
        self.pending: dict[int, Failed] = {}
        self._world, self._actor = world, actor
        self.authority: StateAuthority = self.runs.run(self._begin)

    def _begin(self) -> StateAuthority:
        world = self._world
        return StateAuthority(
            world.options,
            StoreClient(world.store, world.network, self.node, self._loads),
            "states:test",
            self._actor.partition,
            self,
            world.form.n_bytes,
            self._end,
            clock=self.runs.clock,
        )

    def _loads(self) -> None:
        self._world.note_succession(self._actor.partition)

    def call(self, method: str, args: Any, done: Callable[[asyncio.Task[Any]], None]) -> None:
        """Carry out a call in this process."""
        task = asyncio.get_running_loop().create_task(getattr(self.authority, method)(*args))
        task.add_done_callback(done)
        task.add_done_callback(self._look_for_the_end)

    def _look_for_the_end(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        has_given_up = error is None and task.get_coro().__name__ == "retire"  # type: ignore[union-attr]
        if has_given_up or isinstance(error, PartitionRetiredError):
            self._actor.retired = True
            self._world.loop.post(self._world.loop.world, 0.01, self._actor.lose, self, False)

    def _end(self, error: BaseException) -> None:
        if not isinstance(error, StateError):
            self._world.history.defects.append(f"{self.process}: {error!r}")
        self._world.loop.post(self._world.loop.world, 0.0, self._actor.lose, self)

    def die(self) -> None:
        self.runs.die()
        for failed in list(self.pending.values()):
            failed(AuthorityUnavailableError("the state actor died"))
        self.pending.clear()

    # What the authority asks

    async def is_alive(self, replica: str) -> bool:
        await self._reach_ray()
        if not self._world.network.passes(self.node, RAY):
            return True
        return replica not in self._world.known_dead

    async def has_ended(self, process: str) -> bool:
        return process in self._world.known_ended

    async def is_current(self) -> bool:
        await self._reach_ray()
        if not self._world.network.passes(self.node, RAY):
            raise AuthorityUnavailableError("Ray does not tell")
        return self._actor.current is self

    async def _reach_ray(self) -> None:
        cut = not self._world.network.passes(self.node, RAY)
        await asyncio.sleep(ANSWER_TIMEOUT_S if cut else self._world.network.delay())

    async def retire(self, partition: Partition) -> None:
        await self._reach_ray()
        other = self._world.actor_of(partition).find()
        if other is None or not self._world.network.passes(self.node, RAY):
            raise AuthorityUnavailableError("there is none now")
        loop = self._world.loop
        answer: asyncio.Future[None] = loop.create_future()

        def done(task: asyncio.Task[Any]) -> None:
            loop.post(self.runs, self._world.network.delay(), settle, task)

        def settle(task: asyncio.Task[Any]) -> None:
            if not answer.done():
                error = None if task.cancelled() else task.exception()
                if error is None:
                    answer.set_result(None)
                else:
                    answer.set_exception(AuthorityUnavailableError(str(error)))

        loop.post(other.runs, self._world.network.delay(), other.call, "retire", (), done)
        try:
            await asyncio.wait_for(answer, GIVE_UP_TIMEOUT_S)
        except TimeoutError as error:
            raise AuthorityUnavailableError("no answer") from error


class Actor:
    """The state actor of one partition: its present process, and any that Ray has lost sight of.

    Attributes:
        retired: the partition was given up; a process is started only when someone asks for it.
    """

    def __init__(self, world: Surroundings, partition: Partition) -> None:
        self.partition = partition
        self.node = partition.row
        self.lives: list[Life] = []
        self.current: Life | None = None
        self.retired = False
        self._world = world
        self._two_lives: dict[Life, Fault] = {}

    def find(self) -> Life | None:
        """Return the present process, as a handle to the actor would reach it."""
        if self.current is None and self.retired:
            self.start()
        return self.current

    def start(self) -> None:
        if self.current is None:
            self.current = Life(self._world, self)
            self.lives.append(self.current)

    def start_too_early(self) -> None:
        """Start another process while the present one lives on, out of Ray's sight."""
        if self.current is not None:
            fault = Fault("two lives", self.node, self._world.loop.now)
            self._two_lives[self.current] = fault
            self._world.history.faults.append(fault)
        self.current = None
        self.start()

    def lose(self, life: Life, restart: bool = True, down_s: float = 0.02) -> None:
        """End a process; Ray starts the next one when it was the present one."""
        if life not in self.lives:
            return
        self.lives.remove(life)
        life.die()
        if life in self._two_lives:
            self._two_lives.pop(life).end = self._world.loop.now
        loop, random = self._world.loop, self._world.random
        if random.random() < 0.5:  # otherwise on another node, whose processes nobody sees
            self._world.known_ended.add(life.process)
        if self.current is life:
            self.current = None
            if restart and not self.retired:
                loop.post(loop.world, down_s, self.start)

    def end_what_was_lost(self) -> None:
        """End every process but the present one, as Ray does when it sees them again."""
        for life in [each for each in self.lives if each is not self.current]:
            self.lose(life)

    def kill(self, down_s: float) -> None:
        if self.current is not None:
            self.lose(self.current, down_s=down_s)
