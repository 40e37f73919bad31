"""The fast path on uvicorn's server as Serve runs it, by raw bytes where these matter."""

import asyncio
import time
import uuid
from collections import Counter

import httpx
import pytest

from deployments.http import shedding
from deployments.http.messages import JSON_HEADERS
from deployments.log import request_headers
from tests.support.waiting import until_async
from tests.unit.http.apps import HELLO, PATH, STEP, answer_of, app_with, serving


class TestPassing:
    async def test_a_request_of_the_table_is_answered_without_the_wrapper(self):
        async with serving(app_with()) as server, httpx.AsyncClient() as client:
            answer = await client.post(f"{server.url}/api{PATH}", content=b"hello")
        assert (answer.status_code, answer.content) == (200, b"hello")
        assert answer.headers["content-type"] == "application/json"
        assert "x-wrapped" not in answer.headers
        assert server.stats.ends == [(f"/api{PATH}", None)]

    @pytest.mark.parametrize(
        ("method", "path", "headers", "status"),
        [
            ("GET", "/api/status", {}, 200),
            ("GET", "/api/echo", {}, 405),
            ("HEAD", "/api/echo", {}, 405),
            ("POST", "/apx/echo", {}, 404),
            ("POST", "/echo", {}, 200),  # the app itself cares for no prefix; Serve does
            ("POST", "/api/echo", {"x-own": "1"}, 200),
        ],
    )
    async def test_everything_else_passes_the_wrapper(self, method, path, headers, status):
        async with serving(app_with()) as server, httpx.AsyncClient() as client:
            answer = await client.request(method, f"{server.url}{path}", headers=headers)
        assert (answer.status_code, answer.headers.get("x-wrapped")) == (status, "yes")
        assert server.stats.ends == []

    async def test_handlers_see_the_scope_as_behind_the_wrapper_and_an_id_of_each_request(self):
        seen: list[bytes] = []

        async def handle(scope, body):
            assert (scope["root_path"], scope["path"]) == ("/api", "/api/echo")
            assert list(request_headers.get()) == list(scope["headers"])
            seen.append(dict(scope["headers"])[b"x-request-id"])
            return 200, b"{}", JSON_HEADERS

        async with serving(app_with(handle)) as server, httpx.AsyncClient() as client:
            url = f"{server.url}/api{PATH}"
            own = await client.post(url, headers={"X-Request-Id": "a-1"})
            answers = [own, *[await client.post(url) for _ in range(3)]]
        ids = [answer.headers["x-request-id"] for answer in answers]
        assert (ids, ids[0]) == (list(map(bytes.decode, seen)), "a-1")
        assert len(set(map(uuid.UUID, ids[1:]))) == 3


class TestBodies:
    async def test_who_waits_for_a_go_ahead_gets_it(self):
        async with serving(app_with()) as server:
            reader, writer = await server.connect()
            writer.write(STEP + b"expect: 100-continue\r\ncontent-length: 5\r\n\r\n")
            assert b"100 Continue" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
            writer.write(b"hello")
            assert (await answer_of(reader))[2] == b"hello"
            writer.close()


class TestOtherProtocols:
    @pytest.mark.parametrize("protocol", [b"websocket", b"h2c", b"else"])
    @pytest.mark.parametrize("path", [b"/api/echo", b"/api/other"], ids=["fast path", "wrapper"])
    async def test_who_asks_for_another_gets_one_answer_whatever_is_in_the_body(
        self, protocol, path
    ):
        asks = HELLO.replace(b"/api/echo", path).replace(
            b"content-length: 5\r\n\r\nhello",
            b"connection: upgrade\r\nupgrade: %b\r\nsec-websocket-version: 13\r\n"
            b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\ncontent-length: %d\r\n\r\n"
            % (protocol, len(HELLO)),
        )
        async with serving(app_with()) as server:
            reader, writer = await server.connect()
            writer.write(asks)
            await writer.drain()
            await asyncio.sleep(0.02)  # so that what is in the body does not come with the head
            writer.write(HELLO)
            assert (await answer_of(reader))[1][b"connection"] == b"close"
            assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()
            assert len(server.stats.ends) == (path == b"/api/echo")


class TestOverload:
    async def test_requests_that_wait_long_for_their_turn_lower_what_is_admitted(self, monkeypatch):
        monkeypatch.setattr(shedding, "MIN_LIMIT", 16)

        async def handle(scope, body):
            time.sleep(0.005)  # the event loop is held up, as by work
            await asyncio.sleep(0)
            return 200, b"{}", JSON_HEADERS

        async with serving(app_with(handle, max_waiting=1000)) as server:
            # a kept connection could reach the server's limit of idle seconds on a slow machine
            limits = httpx.Limits(max_connections=200, max_keepalive_connections=0)
            async with httpx.AsyncClient(limits=limits, timeout=120) as client:
                posts = [client.post(f"{server.url}/api{PATH}") for _ in range(400)]
                answers = await asyncio.gather(*posts)
        statuses = Counter(answer.status_code for answer in answers)
        assert statuses.keys() == {200, 503}
        refused = next(answer for answer in answers if answer.status_code == 503)
        assert refused.headers["retry-after"] == "1"
        assert refused.headers["x-error-code"] == "overloaded"


class TestConnections:
    async def test_requests_that_do_not_wait_for_answers_are_answered_in_their_order(self):
        async with serving(app_with()) as server:
            reader, writer = await server.connect()
            status = b"GET /api/status HTTP/1.1\r\nhost: x\r\n\r\n"
            writer.write(HELLO + status + HELLO.replace(b"hello", b"again"))
            answers = [(await answer_of(reader))[2] for _ in range(3)]
            assert answers == [b"hello", b'"ok"', b"again"]
            writer.close()

    async def test_a_request_whose_client_has_gone_is_given_up(self):
        given_up = asyncio.Event()

        async def handle(scope, body):
            try:
                await asyncio.sleep(60)
            finally:
                given_up.set()
            raise AssertionError

        async with serving(app_with(handle)) as server:
            _, writer = await server.connect()
            writer.write(HELLO)
            await until_async(lambda: server.stats.at_work == 1)
            writer.transport.abort()
            await asyncio.wait_for(given_up.wait(), 5)
            await until_async(lambda: server.stats.ends)
        assert server.stats.ends == [("/api/echo", "CancelledError")]
        assert server.stats.at_work == 0

    async def test_a_server_that_ends_answers_what_is_at_work_first(self):
        go_on = asyncio.Event()

        async def handle(scope, body):
            await go_on.wait()
            return 200, b"done", JSON_HEADERS

        app = app_with(handle)
        async with serving(app) as server:
            reader, writer = await server.connect()
            writer.write(HELLO)
            await until_async(lambda: server.stats.at_work == 1)
            asyncio.get_running_loop().call_later(0.2, go_on.set)
        assert (await answer_of(reader))[2] == b"done"
        writer.close()

    async def test_a_defect_that_nothing_renders_ends_the_connection_alone(self, monkeypatch):
        app = app_with()

        def fail(*_):
            raise ZeroDivisionError

        monkeypatch.setattr(app.state.fast_routes, "_access_log", fail)  # it has no `note`
        async with serving(app) as server:
            reader, writer = await server.connect()
            writer.write(HELLO)
            await until_async(lambda: server.stats.ends)
            writer.close()
            assert server.stats.ends == [("/api/echo", "AttributeError")]
            assert await asyncio.wait_for(reader.read(), 5)
