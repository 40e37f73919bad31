"""An exchange of the client with a test's own answers."""

from collections.abc import Callable

from greenwave.client.call import NoReply, Reply, Send

Handler = Callable[[Send], Reply | NoReply]


class Service:
    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, send: Send, /) -> Reply | NoReply:
        return self._handler(send)

    async def close(self) -> None: ...
