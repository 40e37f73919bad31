"""Performs calls in virtual time, with the outcomes that a test has laid out."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic_core import from_json

from greenwave.client.call import Call, Effect, NoReply, Reply, Send
from greenwave.client.engine import CallEngine
from greenwave.client.login import Login
from greenwave.client.settings import RETRIES, TIMEOUTS, Retries, Timeouts

Result = TypeVar("Result")

REFUSED = NoReply(sent=False, reason="No connection: refused")
LOST = NoReply(sent=True, reason="No answer: the connection was dropped")


def answer(status: int = 200, body: object = None, **headers: object) -> Reply:
    """Make a JSON answer; ``retry_after=1`` is the header ``retry-after: 1``."""
    named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    content = json.dumps({} if body is None else body).encode()
    return Reply(status, {"content-type": "application/json", **named}, content)


def text(status: int, body: str = "<html>", kind: str = "text/plain") -> Reply:
    return Reply(status, {"content-type": kind}, body.encode())


def unavailable(code: str, retry_after: int | None = 1, status: int = 503) -> Reply:
    after = {} if retry_after is None else {"retry_after": retry_after}
    return answer(status, {"detail": f"It is {code}"}, x_error_code=code, **after)


def granted(token: str = "token-1", expires_in: float = 3600) -> Reply:
    return answer(body={"accessToken": token, "expiresIn": expires_in})


def step(effect: Effect = Effect.IDEMPOTENT, authorized: bool = False) -> Call[Any]:
    """Return a call that answers with the JSON value that came."""
    return Call(
        method="POST",
        url="http://service/step",
        effect=effect,
        read=lambda reply: from_json(reply.body),
        key="key-1",
        authorized=authorized,
    )


@dataclass
class Exchanges:
    """Answers each request with what a function returns or awaits."""

    answer: Callable[[Send], Awaitable[Reply | NoReply]]
    closed: bool = False

    async def __call__(self, send: Send, /) -> Reply | NoReply:
        return await self.answer(send)

    async def close(self) -> None:
        self.closed = True


class Play:
    """An engine whose requests take ``answer_s`` each.

    Attributes:
        sent: every request, and ``pauses`` between them in seconds.
    """

    def __init__(
        self,
        outcomes: Iterable[Reply | NoReply],
        timeouts: Timeouts = TIMEOUTS,
        retries: Retries = RETRIES,
        login: Login | None = None,
        chance: float = 0.0,
        answer_s: float = 0.0,
    ) -> None:
        self.now = 1000.0
        self.sent: list[Send] = []
        self.pauses: list[float] = []
        self._coming = iter(outcomes)
        self._answer_s = answer_s
        self._engine = CallEngine(
            self, timeouts, retries, login, lambda: self.now, lambda: chance, self._pause
        )

    def perform(self, call: Call[Result]) -> Result:
        return asyncio.run(self._engine.complete(call))

    @property
    def paths(self) -> list[str]:
        return [send.url.removeprefix("http://service") for send in self.sent]

    async def __call__(self, send: Send, /) -> Reply | NoReply:
        self.sent.append(send)
        self.now += self._answer_s
        return next(self._coming)

    async def close(self) -> None: ...

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
