"""What happens when the Redis server goes away, hangs, is full, or refuses the user."""

import asyncio
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable

import pytest
import redis

from deployments.store import Document, Expected, Store, StoreUnavailable, open_store
from deployments.store.redis_scripts import NEWEST
from deployments.store.redis_store import SCHEMA_KEY
from load_tests.harness.redis_server import RedisServer, redis_executable

TABLE = "cards"
# Five times the deadline, for a busy machine.
ERROR_WITHIN_S = 7.5

CALLS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "create": lambda store: store.create(TABLE, Document("9", b"nine", "nine")),
    "get": lambda store: store.get(TABLE, "1"),
    "get_by_index": lambda store: store.get_by_index(TABLE, "i"),
    "replace": lambda store: store.replace(TABLE, Document("1", b"new", "j")),
    "delete_by_index": lambda store: store.delete_by_index(TABLE, "i"),
    "change": lambda store: store.change(TABLE, {"2": b"x"}, ["1"], when=Expected("1", b"one")),
    "scan": lambda store: anext(store.scan(TABLE)),
    "increment": lambda store: store.increment("c", 60),
    "count": lambda store: store.count("c"),
    "reset": lambda store: store.reset("c"),
}


@pytest.fixture
async def store(redis_server):
    opened = open_store(redis_server.url)
    await opened.create(TABLE, Document("1", b"one", "i"))
    yield opened
    await opened.close()


async def until_it_serves(store: Store) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                await store.get(TABLE, "1")
                return
            except StoreUnavailable:
                await asyncio.sleep(0.05)


async def test_an_outage_fails_every_call_in_time_changes_nothing_and_is_two_lines_in_the_log(
    redis_server, store, caplog
):
    redis_server.kill()
    for name, call in CALLS.items():
        started = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await call(store)
        assert time.monotonic() - started < ERROR_WITHIN_S, name

    redis_server.start()
    await until_it_serves(store)
    assert await store.get_by_index(TABLE, "i") == b"one"
    assert {key async for key, _ in store.scan(TABLE)} == {"1"}
    await store.create(TABLE, Document("9", b"nine", "nine"))
    began, ended = caplog.messages
    assert began.startswith("The Redis store does not serve: ")
    assert ended.startswith("The Redis store serves again after ")


async def test_a_hanging_server_is_an_error_in_time_and_no_answer_reaches_another_call(
    redis_server, store
):
    await store.change(TABLE, {f"{n}": b"%d" % n for n in range(2, 40)})
    redis_server.pause()
    started = time.monotonic()
    results = await asyncio.gather(
        *(store.get(TABLE, f"{n}") for n in range(2, 40)), return_exceptions=True
    )
    assert {type(result) for result in results} == {StoreUnavailable}
    assert time.monotonic() - started < ERROR_WITHIN_S

    redis_server.resume()
    await until_it_serves(store)
    for n in range(2, 40):
        assert await store.get(TABLE, f"{n}") == b"%d" % n


async def test_a_restart_between_calls_is_not_noticed(redis_server, store):
    # several connections, and few enough to be made anew in time on a busy machine
    await asyncio.gather(*(store.get(TABLE, "1") for _ in range(20)))
    redis_server.kill()
    await asyncio.to_thread(redis_server.start)
    values = await asyncio.gather(*(store.get(TABLE, "1") for _ in range(20)))
    assert values == [b"one"] * 20


async def test_more_callers_than_connections_are_all_served(store):
    values = await asyncio.gather(*(store.get(TABLE, "1") for _ in range(500)))
    assert values == [b"one"] * 500


async def test_a_full_server_refuses_and_writes_nothing(redis_server, store):
    with redis.Redis(port=redis_server.port) as admin:
        admin.config_set("maxmemory", "1")
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            await store.create(TABLE, Document("2", b"two", "j"))
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            await store.replace(TABLE, Document("1", b"new", "i"))
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            await store.change(TABLE, {"2": b"two"}, ["1"], when=Expected("1", b"one"))
        assert await store.get_by_index(TABLE, "i") == b"one"
        admin.config_set("maxmemory", "0")
    assert await store.get_by_index(TABLE, "j") is None
    await store.create(TABLE, Document("2", b"two", "j"))


async def test_a_clock_set_back_keeps_no_counter_for_longer_than_its_lifetime(redis_server, store):
    await store.increment("login", 60)
    with redis.Redis(port=redis_server.port) as admin:
        (name,) = admin.keys("*login*")
        admin.pexpire(name, 3_660_000)  # as if the clock had been set back by an hour
        assert await store.increment("login", 60) == 2
        assert 0 < int(admin.pttl(name)) <= 60_000
        admin.pexpire(name, 30_000)
        assert await store.increment("login", 60) == 3
        assert 0 < int(admin.pttl(name)) <= 30_000, "the window does not move with each step"


async def test_a_copy_that_expires_while_it_is_read_is_an_error_and_no_short_export(
    redis_server, store
):
    await store.change(TABLE, {str(n): b"x" for n in range(3_000)})
    documents = aiter(store.scan(TABLE))
    await anext(documents)
    with redis.Redis(port=redis_server.port) as admin:
        (copy,) = admin.keys("*:copy:*")
        admin.unlink(copy)
    with pytest.raises(StoreUnavailable, match="expired"):
        async for _ in documents:
            pass


class TestSchema:
    async def test_the_version_is_written_and_a_newer_one_refused(self, redis_server):
        store = open_store(redis_server.url)
        await store.change(TABLE, {"1": b"one"})
        with redis.Redis(port=redis_server.port) as admin:
            assert int(admin.get(SCHEMA_KEY) or 0) == NEWEST
            admin.set(SCHEMA_KEY, NEWEST + 1)
            later = open_store(redis_server.url)
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="newer release"):
                    await later.get(TABLE, "1")
            admin.set(SCHEMA_KEY, NEWEST)
        assert await later.get(TABLE, "1") == b"one"
        await store.close()
        await later.close()

    async def test_older_data_are_brought_forward_once(self, redis_server):
        documents = "greenwave:{hidden_states}:documents"
        with redis.Redis(port=redis_server.port) as admin:
            for left in (0, 1):
                admin.hset(documents, "1", "one")
                store = open_store(redis_server.url)
                assert await store.get(TABLE, "1") is None
                await store.close()
                assert admin.exists(documents) == left


class TestTls:
    @pytest.fixture
    def encrypted(self, tmp_path):
        """Start a server that speaks TLS on its ``tls_port``, with a certificate it has made."""
        if not knows_tls():
            pytest.skip("this redis-server is built without TLS")
        key, certificate = str(tmp_path / "key"), str(tmp_path / "crt")
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
        command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        command += ["-keyout", key, "-out", certificate]
        subprocess.run(command, check=True, capture_output=True)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.tls_port = probe.getsockname()[1]
        options = ["--tls-port", str(self.tls_port), "--tls-auth-clients", "no"]
        options += ["--tls-cert-file", certificate, "--tls-key-file", key]
        server = RedisServer(tmp_path / "encrypted", *options).start()
        yield server
        server.stop()

    async def test_rediss_keeps_documents_behind_a_checked_certificate(self, encrypted, tmp_path):
        url = f"rediss://localhost:{self.tls_port}/0"
        store = open_store(f"{url}?ssl_ca_certs={tmp_path / 'crt'}")
        await store.create(TABLE, Document("1", b"one", "i"))
        assert await store.get_by_index(TABLE, "i") == b"one"
        await store.close()
        distrustful = open_store(url)
        with pytest.raises(StoreUnavailable, match="certificate"):
            await distrustful.get(TABLE, "1")
        await distrustful.close()


def knows_tls() -> bool:
    """Return whether redis-server has TLS: then it misses a certificate, not the option."""
    command = [redis_executable(), "--port", "0", "--tls-port", "1"]
    refused = subprocess.run(command, capture_output=True, text=True)
    return "No tls-cert-file" in refused.stdout


class TestUser:
    RULE = (
        "~greenwave:* +@connection +@hash +@scripting +copy +pexpire +pttl +incr +unlink +get +set"
    )

    @pytest.fixture
    def guarded(self, tmp_path):
        user = ["--user", *f"records on >p@ss/word {self.RULE}".split()]
        server = RedisServer(tmp_path / "guarded", *user, "--user", "default", "off").start()
        yield server
        server.stop()

    async def test_the_documented_permissions_suffice_for_every_call(self, guarded):
        store = open_store(f"redis://records:p%40ss%2Fword@127.0.0.1:{guarded.port}/0")
        await store.create(TABLE, Document("1", b"one", "i"))
        for call in CALLS.values():
            await call(store) if call is not CALLS["scan"] else None
        await store.change(TABLE, {"5": b"five"})
        assert "5" in {key async for key, _ in store.scan(TABLE)}
        await store.close()

    async def test_a_wrong_password_is_an_error_that_does_not_show_it(self, guarded):
        store = open_store(f"redis://records:secret-guess@127.0.0.1:{guarded.port}/0")
        with pytest.raises(StoreUnavailable) as caught:
            await store.get(TABLE, "1")
        assert "secret-guess" not in str(caught.value)
        await store.close()
