"""Ray as the engine sees it: it starts processes of state actors, and sometimes one too early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from deployments.stateful.authority.authority import StateAuthority
from deployments.stateful.authority.fenced_writer import PartitionRetiredError
from deployments.stateful.layout import Partition
from deployments.stateful.protocol import AuthorityUnavailableError, StateError
from tests.unit.stateful.simulation.history import Fault
from tests.unit.stateful.simulation.network import RAY, node_of
from tests.unit.stateful.simulation.store import StoreClient
from tests.unit.stateful.simulation.times import ANSWER_TIMEOUT_S, RETIRE_TIMEOUT_S

TABLE = "states:test"


class ActorProcess:
    """One process of a state actor, with its authority; implements
    :class:`~deployments.stateful.layout.Cluster` for it.

    Attributes:
        runtime: what runs its code.
        pending: calls that fail when the process dies.
    """

    def __init__(self, cluster, actor: Actor) -> None:
        self.session = cluster.session
        self.process = f"{cluster.machine}/{len(cluster.loop.processes)}/0"
        self.node = actor.node
        self.runtime = cluster.new_process(self.process)
        self.pending: dict[int, Callable[[BaseException], None]] = {}
        self._cluster, self._actor = cluster, actor
        self.authority: StateAuthority = self.runtime.run(self._begin)

    def _begin(self) -> StateAuthority:
        cluster, partition = self._cluster, self._actor.partition
        return StateAuthority(
            cluster.options,
            StoreClient(
                cluster.store,
                cluster.network,
                self.node,
                lambda: cluster.note_takeover(partition, self.session),
            ),
            TABLE,
            partition,
            self,
            cluster.form.n_bytes,
            self._end,
        )

    def call(self, method: str, args: Any, done: Callable[[asyncio.Task[Any]], None]) -> None:
        """Run a method of the authority in this process."""
        task = asyncio.get_running_loop().create_task(getattr(self.authority, method)(*args))
        task.add_done_callback(done)
        task.add_done_callback(lambda task: self._leave_if_retired(method, task))

    def _leave_if_retired(self, method: str, task: asyncio.Task[Any]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if (error is None and method == "retire") or isinstance(error, PartitionRetiredError):
            self._actor.retired = True
            self._cluster.loop.post(
                self._cluster.loop.environment, 0.01, self._actor.end, self, False
            )

    def _end(self, error: BaseException) -> None:
        if not isinstance(error, StateError):
            self._cluster.history.defects.append(f"{self.process}: {error!r}")
        self._cluster.loop.post(self._cluster.loop.environment, 0.0, self._actor.end, self)

    def die(self) -> None:
        self.runtime.die()
        for fail in list(self.pending.values()):
            fail(AuthorityUnavailableError("the state actor died"))
        self.pending.clear()

    # What the authority calls

    async def is_alive(self, replica: str) -> bool:
        return not await self._reaches_ray() or replica not in self._cluster.known_dead

    async def has_ended(self, process: str) -> bool:
        return bool(self._cluster.has_ended(process))

    async def is_current(self) -> bool:
        if not await self._reaches_ray():
            raise AuthorityUnavailableError("Ray does not respond")
        return self._actor.current is self

    async def note(self, name: str, value: str) -> str:
        return (await self._notes()).setdefault(name, value)

    async def noted(self, prefix: str) -> list[str]:
        return [each for each in await self._notes() if each.startswith(prefix)]

    async def _notes(self) -> dict[str, str]:
        if not await self._reaches_ray():
            raise AuthorityUnavailableError("Ray does not respond")
        notes: dict[str, str] = self._cluster.notes.setdefault(self.session, {})
        return notes

    async def _reaches_ray(self) -> bool:
        network = self._cluster.network
        cut = not network.passes(self.node, RAY)
        await asyncio.sleep(ANSWER_TIMEOUT_S if cut else network.delay())
        return bool(network.passes(self.node, RAY))

    async def retire(self, partition: Partition) -> None:
        reached = await self._reaches_ray()
        other = self._cluster.actor_of(partition).find()
        if other is None or not reached:
            raise AuthorityUnavailableError("there is no process now")
        loop, network = self._cluster.loop, self._cluster.network
        response: asyncio.Future[None] = loop.create_future()

        def done(task: asyncio.Task[Any]) -> None:
            loop.post(self.runtime, network.delay(), settle, task)

        def settle(task: asyncio.Task[Any]) -> None:
            if response.done():
                return
            error = None if task.cancelled() else task.exception()
            if error is None:
                response.set_result(None)
            else:
                response.set_exception(AuthorityUnavailableError(str(error)))

        loop.post(other.runtime, network.delay(), other.call, "retire", (), done)
        try:
            await asyncio.wait_for(response, RETIRE_TIMEOUT_S)
        except TimeoutError as error:
            raise AuthorityUnavailableError("no response") from error


class Actor:
    """The state actor of one partition: its current process, and any that Ray has lost sight of.

    Attributes:
        retired: the partition was retired; a process is started only when another one needs it.
    """

    def __init__(self, cluster, partition: Partition) -> None:
        self.partition = partition
        self.node = node_of(partition)
        self.processes: list[ActorProcess] = []
        self.current: ActorProcess | None = None
        self.retired = False
        self._cluster = cluster
        self._unseen: dict[ActorProcess, Fault] = {}

    def find(self) -> ActorProcess | None:
        """Return the process that a new handle to the actor reaches."""
        if self.current is None and self.retired:
            self.start()
        return self.current

    @property
    def authority(self) -> StateAuthority:
        assert self.current is not None
        return self.current.authority

    def start(self) -> None:
        if self.current is None:
            self.current = ActorProcess(self._cluster, self)
            self.processes.append(self.current)

    def start_second(self) -> None:
        """Start another process while the current one goes on, out of Ray's sight."""
        if self.current is not None:
            fault = Fault("two processes", self.node, self._cluster.loop.now)
            self._unseen[self.current] = fault
            self._cluster.history.faults.append(fault)
        self.current = None
        self.start()

    def end(
        self,
        process: ActorProcess,
        restart: bool = True,
        down_s: float = 0.02,
        noticed: bool | None = None,
    ) -> None:
        """End a process; Ray starts the next one if it was the current one.

        Args:
            noticed: whether the next process knows that it has ended; by default by chance, as
                processes of other nodes are unknown.
        """
        if process not in self.processes:
            return
        self.processes.remove(process)
        process.die()
        if process in self._unseen:
            self._unseen.pop(process).end = self._cluster.loop.now
        loop, random = self._cluster.loop, self._cluster.random
        if random.random() < 0.5 if noticed is None else noticed:
            self._cluster.known_ended.add(process.process)
        if self.current is process:
            self.current = None
            if restart and not self.retired:
                loop.post(loop.environment, down_s, self.start)

    def end_unseen(self) -> None:
        """End every process but the current one, as Ray does when it sees them again."""
        for process in [each for each in self.processes if each is not self.current]:
            self.end(process)

    def kill(self, down_s: float, noticed: bool | None = None) -> None:
        if self.current is not None:
            self.end(self.current, down_s=down_s, noticed=noticed)
