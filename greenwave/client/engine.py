"""Performs a call: attempts, pauses and logins within one deadline."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping

from greenwave.client.call import Call, Effect, Exchange, Reply, Result, Send
from greenwave.client.errors import (
    GreenwaveError,
    InvalidInputError,
    TooManyLoginsError,
    UnavailableError,
    UnknownOutcomeError,
    UnusableAnswerError,
)
from greenwave.client.failures import failure_of
from greenwave.client.login import Login
from greenwave.client.settings import Retries, Timeouts

_COMMON = {"user-agent": "greenwave-client", "accept": "application/json"}


class CallEngine:
    """Decides how calls are performed, and keeps the token that they share.

    Args:
        login: None for a client without user name and password.
        clock: monotonic, in seconds.
        chance: a random number from 0 to 1.
        pause: waits so many seconds.
    """

    def __init__(
        self,
        exchange: Exchange,
        timeouts: Timeouts,
        retries: Retries,
        login: Login | None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._exchange = exchange
        self._timeouts = timeouts
        self._retries = retries
        self._login = login
        self._login_lock = asyncio.Lock()
        self._clock = clock
        self._chance = chance
        self._pause = pause

    async def complete(self, call: Call[Result]) -> Result:
        """Return the result of a call.

        Raises:
            GreenwaveError: it has none; see :mod:`greenwave.client.errors`.
        """
        deadline = self._clock() + self._timeouts.total_s
        return await self._attempt(call, deadline, self._retries.attempts)

    async def _attempt(self, call: Call[Result], deadline: float, most: int) -> Result:
        attempts, perhaps_done, logged_in_anew = 0, False, False
        while True:
            token = None
            if call.authorized:
                try:
                    token = await self._token(call, deadline)
                except UnavailableError as error:
                    if not perhaps_done:
                        raise
                    raise _placed(_unknown(error), call, attempts) from error
            attempts += 1
            reply = await self._exchange(self._request(call, token, deadline))
            if isinstance(reply, Reply) and reply.status in call.answers:
                result = _read(call, reply, attempts)
                pause_s = self._pause_s(attempts)
                over = attempts >= most or self._clock() + pause_s >= deadline
                if over or not call.is_incomplete(result):
                    return result
                perhaps_done = True
            else:
                failure = failure_of(reply)
                if token is not None and failure.error.status == 401 and not logged_in_anew:
                    self._login_of(call).refuse(token)
                    logged_in_anew = True
                    continue
                perhaps_done |= failure.perhaps_done and call.effect is not Effect.NONE
                pause_s = self._pause_s(attempts, failure.error.retry_after_s)
                over = attempts >= most or self._clock() + pause_s >= deadline
                twice = failure.perhaps_done and call.effect is Effect.NOT_IDEMPOTENT
                if over or twice or not failure.passes:
                    final = failure.error
                    if perhaps_done and isinstance(final, UnavailableError):
                        final = _unknown(final)
                    raise _placed(final, call, attempts)
            await self._pause(pause_s)

    def _request(self, call: Call[Result], token: str | None, deadline: float) -> Send:
        headers: Mapping[str, str] = {**_COMMON, **call.headers}
        if token is not None:
            headers = {**headers, "authorization": f"Bearer {token}"}
        timeout_s = max(0.001, min(self._timeouts.attempt_s, deadline - self._clock()))
        connect_s = min(self._timeouts.connect_s, timeout_s)
        return Send(call.method, call.url, headers, call.body, timeout_s, connect_s)

    def _pause_s(self, attempts: int, retry_after_s: float | None = None) -> float:
        chance = self._chance()
        return max(self._retries.pause_s(attempts, chance), (retry_after_s or 0) * (1 + chance / 4))

    def _login_of(self, call: Call[Result]) -> Login:
        if self._login is None:
            raise InvalidInputError(
                "The gateway asks for a login: make the client with a username and a password, "
                "or with a token",
                call=str(call),
            )
        return self._login

    async def _token(self, call: Call[Result], deadline: float) -> str:
        login = self._login_of(call)
        if token := login.fresh(self._clock()):
            return token
        try:
            async with asyncio.timeout(deadline - self._clock()):
                await self._login_lock.acquire()
        except TimeoutError:
            message = "Other calls' login took too long"
            raise UnavailableError(message, call=str(login.call)) from None
        try:
            return await self._renew(login, deadline)
        finally:
            self._login_lock.release()

    async def _renew(self, login: Login, deadline: float) -> str:
        now = self._clock()
        if token := login.fresh(now):
            return token  # another call was first
        before = login.good(now)
        try:
            most = self._retries.attempts if before is None else 1
            grant = await self._attempt(login.call, deadline, most)
        except (UnavailableError, TooManyLoginsError):
            if before is None:
                raise
            login.postpone(self._clock())
            return before
        return login.keep(grant, now)


def _read(call: Call[Result], reply: Reply, attempts: int) -> Result:
    try:
        return call.read(reply)
    except GreenwaveError as error:
        raise _placed(error, call, attempts) from None
    except ValueError:
        said = f"The answer is not of the documented form: {reply.body[:200]!r}"
        unusable = UnusableAnswerError(said, status=reply.status)
        raise _placed(unusable, call, attempts) from None


def _unknown(error: GreenwaveError) -> UnknownOutcomeError:
    return UnknownOutcomeError(
        f"It may have been done or not: {error.message}",
        status=error.status,
        code=error.code,
        retry_after_s=error.retry_after_s,
    )


def _placed(error: GreenwaveError, call: Call[Result], attempts: int) -> GreenwaveError:
    error.call, error.attempts = str(call), attempts
    if isinstance(error, UnknownOutcomeError):
        error.key = call.key
    return error
