"""The HTTP service of records while its store is gone: answered in time, in its own form."""

import sqlite3
import time

import httpx
import pytest

from deployments.customers import record_types
from deployments.customers.records.api import create_app
from deployments.customers.records.service import RecordService
from deployments.store import open_store

PATH = "/api/loans"
MOBILE, NEW_MOBILE = "4354437001", "4354437002"
ANSWER_WITHIN_S = 2.0

Loans = httpx.AsyncClient


@pytest.fixture
async def connect():
    """Serve loans on a store."""
    clients, services = [], []

    def connect(store_url):
        service = RecordService(record_types()["loans"], open_store(store_url))
        transport = httpx.ASGITransport(create_app(service))
        client = httpx.AsyncClient(transport=transport, base_url="http://test")
        services.append(service)
        clients.append(client)
        return client

    yield connect
    for client in clients:
        await client.aclose()
    for service in services:
        await service.close()


def of(mobile: str) -> dict[str, str]:
    return {"mobileNumber": mobile}


async def assert_unavailable(client: Loans, *methods: str) -> None:
    for method in methods:
        started = time.monotonic()
        answer = await client.request(method, PATH, params=of(NEW_MOBILE))
        assert time.monotonic() - started < ANSWER_WITHIN_S, method
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        body = answer.json()
        assert body.keys() == {"apiPath", "errorCode", "errorMessage", "errortime"}
        assert (body["apiPath"], body["errorMessage"]) == (
            "uri=/api/loans",
            "The record store is not available",
        )


async def test_redis_killed_and_back(redis_server, connect):
    client = connect(redis_server.url)
    assert (await client.post(PATH, params=of(MOBILE))).status_code == 201
    redis_server.kill()
    await assert_unavailable(client, "POST", "GET", "DELETE")
    redis_server.start()
    assert (await client.get(PATH, params=of(MOBILE))).json()["mobileNumber"] == MOBILE
    assert (await client.get(PATH, params=of(NEW_MOBILE))).status_code == 404
    assert (await client.post(PATH, params=of(NEW_MOBILE))).status_code == 201


async def test_sqlite_locked_and_free_again(tmp_path, connect):
    client = connect(f"sqlite:///{tmp_path / 'store.db'}")
    assert (await client.post(PATH, params=of(MOBILE))).status_code == 201
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    await assert_unavailable(client, "POST", "DELETE")
    assert (await client.get(PATH, params=of(MOBILE))).status_code == 200  # reads go on
    other.execute("ROLLBACK")
    other.close()
    assert (await client.get(PATH, params=of(NEW_MOBILE))).status_code == 404
    assert (await client.post(PATH, params=of(NEW_MOBILE))).status_code == 201
