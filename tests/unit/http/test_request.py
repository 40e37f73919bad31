"""Headers and bodies of requests: how they are read, in a crowd and whichever way they take."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
import pytest_asyncio

from deployments.http.errors import BodyTooLargeError, BodyTooSlowError
from deployments.http.messages import is_name
from deployments.http.request import BODY_TIMEOUT_S, CROWDED_TIMEOUT_S, BodyReader, header
from tests.support.virtual_time import virtual_time
from tests.unit.http.apps import PATH, app_with, client_of, serving


@pytest.mark.parametrize(
    ("values", "read"),
    [
        ([], None),
        ([b"one"], "one"),
        ([b"one", b"one"], "one"),
        ([b"one", b"two"], "one, two"),
        ([b"one, two", b"three"], "one, two, three"),
        ([b"one", b"two", b"one"], "one, two, one"),  # the last is whom the nearest proxy saw
    ],
    ids=str,
)
def test_no_one_of_several_different_headers_counts(values, read):
    scope = {"headers": [(b"other", b"x"), *((b"name", value) for value in values)]}
    assert header(scope, b"name") == read
    assert is_name(read or "none") == (read in (None, "one")), "different names are no name"


def part(body: bytes, more: bool) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


class Client:
    """Sends the beginning of a body, and the rest when it is told to."""

    def __init__(self, beginning: bytes = b"half ") -> None:
        self._parts = [part(beginning, True)]
        self.go_on = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        if self._parts:
            return self._parts.pop()
        await self.go_on.wait()
        return part(b"rest", False)


class TestBodies:
    async def read(self, bodies: BodyReader, client: Client) -> asyncio.Task[bytes]:
        task = asyncio.create_task(bodies.read(client.receive, 100))
        await asyncio.sleep(0)
        return task

    @virtual_time
    async def test_in_a_crowd_the_oldest_that_is_slow_gives_way_and_the_others_are_read(self):
        bodies = BodyReader(max_unfinished=3)
        clients = [Client() for _ in range(4)]
        reading = []
        for client in clients[:3]:
            reading.append(await self.read(bodies, client))
            await asyncio.sleep(0.1)
        await asyncio.sleep(CROWDED_TIMEOUT_S)
        reading.append(await self.read(bodies, clients[3]))
        with pytest.raises(BodyTooSlowError):
            async with asyncio.timeout(0.1):
                await reading[0]
        for client in clients:
            client.go_on.set()
        assert await asyncio.gather(*reading[1:]) == [b"half rest"] * 3

    @virtual_time
    async def test_the_oldest_may_have_run_out_of_time_in_the_same_turn(self):
        bodies = BodyReader(max_unfinished=1)
        oldest = await self.read(bodies, Client())
        here = Client()
        here.go_on.set()
        loop = asyncio.get_running_loop()
        newest = loop.create_future()

        def arrive() -> None:  # between the timeout and the turn in which the oldest ends
            newest.set_result(asyncio.ensure_future(bodies.read(here.receive, 100)))

        loop.call_at(loop.time() + BODY_TIMEOUT_S, arrive)
        assert await (await newest) == b"half rest"
        with pytest.raises(BodyTooSlowError):
            await oldest

    @virtual_time
    async def test_while_none_is_slow_the_newest_is_read_if_it_comes_at_once(self):
        bodies = BodyReader(max_unfinished=1)
        first = Client()
        reading = await self.read(bodies, first)
        here = Client()
        here.go_on.set()
        assert await bodies.read(here.receive, 100) == b"half rest"
        with pytest.raises(BodyTooSlowError):
            async with asyncio.timeout(CROWDED_TIMEOUT_S / 2):
                await bodies.read(Client().receive, 100)
        first.go_on.set()
        assert await reading == b"half rest"
        in_time = await self.read(bodies, last := Client())
        await asyncio.sleep(CROWDED_TIMEOUT_S)
        last.go_on.set()
        assert await in_time == b"half rest", "there is no crowd any more"

    @virtual_time
    async def test_what_has_arrived_of_all_together_is_bounded(self):
        bodies = BodyReader(max_bytes=100)
        slow = await self.read(bodies, Client(b"x" * 60))
        await asyncio.sleep(CROWDED_TIMEOUT_S)
        next_one = Client(b"y" * 60)
        reading = await self.read(bodies, next_one)
        with pytest.raises(BodyTooSlowError):
            async with asyncio.timeout(0.1):
                await slow
        next_one.go_on.set()
        assert await reading == b"y" * 60 + b"rest"
        with pytest.raises(BodyTooLargeError):
            await bodies.read(Client(b"z" * 101).receive, 100)
        fits = Client(b"z" * 100)
        fits.go_on.set()
        assert len(await bodies.read(fits.receive, 104)) == 104, "nothing is left of the others"


@pytest_asyncio.fixture(params=["ASGI", "fast path"])
async def connect(request):
    """Return what makes a client of an application."""
    async with AsyncExitStack() as stack:

        async def connect(app):
            if request.param == "ASGI":
                return client_of(app)
            server = await stack.enter_async_context(serving(app))
            return await stack.enter_async_context(
                httpx.AsyncClient(base_url=f"{server.url}/api", timeout=5)
            )

        yield connect


async def test_a_body_in_parts_is_put_together(connect):
    async def parts():
        for part in (b"a", b"", b"bc"):
            yield part
            await asyncio.sleep(0.02)

    client = await connect(app_with())
    assert (await client.post(PATH, content=parts())).content == b"abc"


async def test_a_body_may_be_as_long_as_the_limit_and_no_longer(connect):
    client = await connect(app_with())
    assert (await client.post(PATH, content=b"x" * 100)).status_code == 200
    answer = await client.post(PATH, content=b"x" * 101)
    assert answer.status_code == 413
    assert answer.json() == {"detail": "The request body is larger than 100 bytes"}
    assert (await client.post(PATH, content=b"next")).content == b"next"


async def test_a_client_that_goes_gets_no_answer_and_leaves_room_for_others():
    app = app_with(max_waiting=1)
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive():
        return messages.pop(0)

    async def send(message):
        pytest.fail(f"answered: {message}")

    scope = {"type": "http", "method": "POST", "path": PATH, "headers": []}
    with pytest.raises(asyncio.CancelledError):
        await app(scope, receive, send)
    assert (await client_of(app).post(PATH, content=b"x")).status_code == 200
