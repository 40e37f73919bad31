"""A replica's way to one state actor, over the simulated network."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from deployments.stateful.protocol import (
    Authority,
    AuthorityUnavailableError,
    Claimed,
    ClaimPart,
    Grant,
    Hello,
    Key,
    OpenedSession,
    StaleSessionError,
    StateBatch,
)
from tests.unit.stateful.simulation.history import ResetCall
from tests.unit.stateful.simulation.loop import Process
from tests.unit.stateful.simulation.ray import Actor, Life
from tests.unit.stateful.simulation.surroundings import Surroundings

RESET: ContextVar[ResetCall | None] = ContextVar("reset", default=None)
"""The reset that a call is made for."""


class Wire(Authority):
    """Like an actor handle: it goes on to the same process until a session has to be opened."""

    def __init__(self, world: Surroundings, actor: Actor, process: Process) -> None:
        self._world, self._actor, self._process = world, actor, process
        self._life: Life | None = None
        self.left = False

    async def open_session(self, hello: Hello) -> OpenedSession:
        self._life = self._find()
        opened: OpenedSession = await self._call("open_session", hello)
        return opened

    def _find(self) -> Life | None:
        present = self._actor.find()
        others = [life for life in self._actor.lives if life not in (present, self._life)]
        if others and self._world.random.random() < 0.3:  # a handle that has not heard of it yet
            return others[0]
        return present

    async def claim(self, session: int, part: ClaimPart) -> Claimed:
        part = replace(part, owned=_copy(part.owned), released=_copy(part.released))
        claimed: Claimed = await self._call("claim", session, part)
        if part.last:
            sessions = self._world.history.sessions.setdefault(self._process.name, [])
            sessions.append(self._world.loop.now)
        return claimed

    async def listen(self, session: int) -> list[Key]:
        recalls: list[Key] = await self._call("listen", session)
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
                number = self._world.form.number(state)
                self._world.history.made(number).refused_at = self._world.loop.now
        return refused

    async def reset(self, session: int, run: str, call: int) -> None:
        await self._call("reset", session, run, call)

    async def close_session(self, session: int) -> None:
        await self._call("close_session", session)
        self.left = True

    async def _call(self, method: str, *args: Any) -> Any:
        """Send a call; what becomes of it is told here, unless the network swallows it."""
        world, life = self._world, self._life
        loop, network, me = world.loop, world.network, self._process.name
        if life is None:
            await asyncio.sleep(network.delay())
            raise AuthorityUnavailableError("there is no state actor")
        answer = loop.create_future()
        sender = self._process
        reset = RESET.get()

        def settle(result: Any, error: BaseException | None) -> None:
            if not answer.done():
                if error is None:
                    answer.set_result(result)
                else:
                    answer.set_exception(error)

        def unreachable() -> None:
            gone = AuthorityUnavailableError("the connection is lost")
            loop.post(sender, network.delay(), settle, None, gone)

        def died(error: BaseException) -> None:
            if network.passes(life.node, me):
                loop.post(sender, network.delay(), settle, None, error)

        def arrive() -> None:
            life.call(method, args, done)

        def done(task: asyncio.Task[Any]) -> None:
            life.pending.pop(id(answer), None)
            error: BaseException | None = None
            if task.cancelled():
                error = AuthorityUnavailableError("the call was cancelled")
            else:
                error = task.exception()
            result = task.result() if error is None else None
            if isinstance(error, StaleSessionError) and "has arrived before" in str(error):
                world.met["a repeated call was refused"] += 1
            if error is None:
                world.carried_out(life.process, method, args, result, reset)
            network.send(life.node, me, sender, lambda: settle(result, error), unreachable)

        if life.runs.dead:
            unreachable()
        else:
            life.pending[id(answer)] = died
            network.send(me, life.node, life.runs, arrive, unreachable)
        try:
            return await answer
        finally:
            life.pending.pop(id(answer), None)


def _copy(states: StateBatch) -> StateBatch:
    return StateBatch(
        list(states.keys), list(states.versions), states.states.copy(), dict(states.receipts)
    )
