"""The blocking client."""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import Self, TypeVar

from greenwave.client.base import BaseClient
from greenwave.client.call import Call, Exchange
from greenwave.client.service import Blocking

Result = TypeVar("Result")


class Client(BaseClient[Blocking]):
    """A blocking client of a running system. Threads can share it; ``with`` closes it.

    An event loop in a background thread performs the calls.
    """

    def _open(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()  # so that the loop ends after the calls that were begun
        self._thread = threading.Thread(
            target=_serve, args=[self._loop], name="greenwave-client", daemon=True
        )
        self._thread.start()
        # also for a client that is not closed, at the end of the program at the latest
        self._end = weakref.finalize(self, _end, self._loop, self._thread, self._exchange)

    def close(self) -> None:
        """Close the connections; later calls raise InvalidInputError."""
        with self._lock:
            self._closed = True
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _perform(self, call: Call[Result], /) -> Result:
        with self._lock:
            self._closed |= not self._thread.is_alive()  # as in a forked process
            self._check_open(call)
            done = asyncio.run_coroutine_threadsafe(self._engine.complete(call), self._loop)
        try:
            return done.result()
        except BaseException:  # such as Ctrl-C
            done.cancel()
            raise


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread, exchange: Exchange) -> None:
    async def end() -> None:
        if calls := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(calls)
        await exchange.close()
        loop.stop()

    asyncio.run_coroutine_threadsafe(end(), loop)
    if threading.current_thread() is not thread:  # which may collect garbage
        thread.join()
