"""An authority whose every response a test decides."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from deployments.stateful.protocol import (
    Authority,
    Claimed,
    ClaimPart,
    DismissedError,
    Grant,
    Hello,
    Key,
    OpenedSession,
    RunSummary,
    StateBatch,
    Version,
)
from deployments.stateful.replica.slab import Array

LEASE_S = 1.0


def initial_state(key: Key) -> Array:
    return np.zeros((2, 3), np.float32)


def gate() -> asyncio.Event:
    opened = asyncio.Event()
    opened.set()
    return opened


@dataclass
class ScriptedAuthority(Authority):
    """Grants and commits at once, and recalls nothing, unless a test scripts something else.

    Attributes:
        polls: responses to polls: recalled keys, or an error.
        grants, commits_arrive, claims_arrive: closed by a test to hold calls back.
        checkout_fails, commit_fails: an error in place of the next response.
        reset_fails: an error in place of every response.
        refuses: keys whose commits are refused.
        dismisses: every new session.
    """

    hellos: list[Hello] = field(default_factory=list)
    claims: list[ClaimPart] = field(default_factory=list)
    commits: list[tuple[StateBatch, list[Key]]] = field(default_factory=list)
    resets: list[str] = field(default_factory=list)
    written: list[StateBatch] = field(default_factory=list)
    polls: asyncio.Queue[list[Key] | Exception] = field(default_factory=asyncio.Queue)
    grants: asyncio.Event = field(default_factory=gate)
    commits_arrive: asyncio.Event = field(default_factory=gate)
    claims_arrive: asyncio.Event = field(default_factory=gate)
    checkouts: int = 0
    checkout_fails: Exception | None = None
    reset_fails: Exception | None = None
    commit_fails: Exception | None = None
    refuses: Collection[Key] = ()
    dismisses: DismissedError | None = None

    async def open_session(self, hello: Hello) -> OpenedSession:
        self.hellos.append(hello)
        if self.dismisses is not None:
            raise self.dismisses
        return OpenedSession(len(self.hellos), LEASE_S)

    async def claim(self, session: int, part: ClaimPart) -> Claimed:
        self.claims.append(part)
        await self.claims_arrive.wait()
        return Claimed()

    async def listen(self, session: int) -> list[Key]:
        try:
            response = await asyncio.wait_for(self.polls.get(), LEASE_S / 4)
        except TimeoutError:
            return []
        if isinstance(response, Exception):
            raise response
        return response

    async def checkout(self, session: int, key: Key, call: int) -> Grant:
        self.checkouts += 1
        await self.grants.wait()
        if self.checkout_fails is not None:
            error, self.checkout_fails = self.checkout_fails, None
            raise error
        return Grant(Version(self.checkouts, 0), None)

    async def commit(
        self, session: int, states: StateBatch, released: list[Key], call: int
    ) -> list[Key]:
        await self.commits_arrive.wait()
        if self.commit_fails is not None:
            error, self.commit_fails = self.commit_fails, None
            raise error
        self.commits.append((states, released))
        return [key for key in states.keys if key in self.refuses]

    async def reset(self, session: int, run: str, call: int) -> None:
        self.resets.append(run)
        if self.reset_fails is not None:
            raise self.reset_fails

    async def read(self, session: int, run: str) -> StateBatch:
        return StateBatch()

    async def write(self, session: int, run: str, states: StateBatch, call: int) -> None:
        self.written.append(states)
        await self.reset(session, run, call)

    async def runs(self, session: int, limit: int) -> list[RunSummary]:
        return []

    async def close_session(self, session: int) -> None: ...
