"""A replica's calls to one state actor, over the simulated network."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from deployments.stateful.protocol import (
    NOTHING_SEEN,
    Authority,
    AuthorityUnavailableError,
    Claimed,
    ClaimPart,
    Grant,
    Hello,
    Key,
    OpenedSession,
    RunSummary,
    StaleSessionError,
    StateBatch,
)
from tests.unit.stateful.simulation.actors import Actor, ActorProcess
from tests.unit.stateful.simulation.history import ResetCall
from tests.unit.stateful.simulation.loop import Process

RESET: ContextVar[ResetCall | None] = ContextVar("reset", default=None)
"""The reset that a call belongs to."""


class RemoteAuthority(Authority):
    """Like an actor handle, it calls the same process until the next session is opened.

    Attributes:
        left: the authority has confirmed the end of the session.
        seen: the latest mark.
    """

    def __init__(self, cluster, actor: Actor, process: Process) -> None:
        self._cluster, self._actor, self._process = cluster, actor, process
        self._target: ActorProcess | None = None
        self.left = False
        self.seen = NOTHING_SEEN
        self.partition = actor.partition

    async def open_session(self, hello: Hello) -> OpenedSession:
        self._target = self._find()
        opened: OpenedSession = await self._call("open_session", replace(hello, seen=self.seen))
        return opened

    def _find(self) -> ActorProcess | None:
        current = self._actor.find()
        others = [each for each in self._actor.processes if each not in (current, self._target)]
        if others and self._cluster.random.random() < 0.3:  # the handle is out of date
            return others[0]
        return current

    async def claim(self, session: int, part: ClaimPart) -> Claimed:
        part = replace(part, owned=_copy(part.owned), released=_copy(part.released))
        claimed: Claimed = await self._call("claim", session, part)
        if part.last:
            opened = self._cluster.history.sessions.setdefault(self._process.name, [])
            opened.append(self._cluster.loop.now)
        return claimed

    async def listen(self, session: int) -> list[Key]:
        recalls: list[Key]
        recalls, self.seen = await self._call("poll", session)
        return recalls

    async def checkout(self, session: int, key: Key, call: int) -> Grant:
        grant: Grant = await self._call("checkout", session, key, call)
        return grant

    async def commit(
        self, session: int, states: StateBatch, released: list[Key], call: int
    ) -> list[Key]:
        message = (session, _copy(states), list(released), call)
        refused: list[Key] = await self._call("commit", *message)
        for key, state in zip(states.keys, states.states, strict=True):
            if key in refused:
                number = self._cluster.form.number(state)
                self._cluster.history.step(number).refused_at = self._cluster.loop.now
        return refused

    async def reset(self, session: int, run: str, call: int) -> None:
        await self._call("reset", session, run, call)

    async def read(self, session: int, run: str) -> StateBatch:
        states: StateBatch = await self._call("read", session, run)
        return states

    async def write(self, session: int, run: str, states: StateBatch, call: int) -> None:
        await self._call("write", session, run, _copy(states), call)

    async def runs(self, session: int, limit: int) -> list[RunSummary]:
        summaries: list[RunSummary] = await self._call("runs", session, limit)
        return summaries

    async def close_session(self, session: int) -> None:
        await self._call("close_session", session)
        self.left = True

    async def _call(self, method: str, *args: Any) -> Any:
        """Send a call, and wait for its response or for an error of the network."""
        cluster, target = self._cluster, self._target
        loop, network, me = cluster.loop, cluster.network, self._process.name
        if target is None:
            await asyncio.sleep(network.delay())
            raise AuthorityUnavailableError("there is no state actor")
        response: asyncio.Future[Any] = loop.create_future()
        sender, reset = self._process, RESET.get()

        def settle(result: Any, error: BaseException | None) -> None:
            if response.done():
                return
            if error is None:
                response.set_result(result)
            else:
                response.set_exception(error)

        def unreachable() -> None:
            error = AuthorityUnavailableError("the connection is lost")
            loop.post(sender, network.delay(), settle, None, error)

        def died(error: BaseException) -> None:
            if network.passes(target.node, me):
                loop.post(sender, network.delay(), settle, None, error)

        def arrive() -> None:
            cluster.note_arrival(method, args)
            target.call(method, args, done)

        def done(task: asyncio.Task[Any]) -> None:
            target.pending.pop(id(response), None)
            result, error = _outcome(task)
            if isinstance(error, StaleSessionError) and "has arrived before" in str(error):
                cluster.reached["a repeated call was refused"] += 1
            if error is None:
                cluster.note_call(target.process, method, args, result, reset)
            network.send(target.node, me, sender, lambda: settle(result, error), unreachable)

        if target.runtime.dead:
            unreachable()
        else:
            target.pending[id(response)] = died
            network.send(me, target.node, target.runtime, arrive, unreachable)
        try:
            return await response
        finally:
            target.pending.pop(id(response), None)


def _outcome(task: asyncio.Task[Any]) -> tuple[Any, BaseException | None]:
    if task.cancelled():
        return None, AuthorityUnavailableError("the call was cancelled")
    error = task.exception()
    return (task.result() if error is None else None), error


def _copy(batch: StateBatch) -> StateBatch:
    return StateBatch(
        list(batch.keys), list(batch.versions), batch.states.copy(), dict(batch.receipts)
    )
