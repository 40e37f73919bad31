"""The console's routes and what watches behind them, with a feed that the test fills."""

import asyncio
import gc
import json
import re
import weakref
from pathlib import Path
from typing import Any

import pytest

from deployments.access.audit import AuditBuffer, AuditLog
from deployments.access.keys import Keys, new_key
from deployments.console.api import create_app
from deployments.console.replicas import Replica
from deployments.console.service import (
    EVENT_PERIOD_S,
    LINGER_S,
    PAUSE_S,
    ConsoleService,
)
from deployments.feed.hub import COLLECT_S
from deployments.store import open_store
from models.networks.shipped import JUNCTIONS
from tests.support.virtual_time import virtual_time
from tests.unit.console.reports import FakeFeed, FakeServe, decision, report, shown
from tests.unit.gateway.conftest import access_by, make_tokens
from tests.unit.http.apps import client_of

STATIC = Path("deployments/console/static")


@pytest.fixture
def tokens():
    return make_tokens()


@pytest.fixture
def bearer(tokens):
    return {"Authorization": f"Bearer {tokens.issue('ann')}"}


@pytest.fixture
def feed():
    return FakeFeed()


@pytest.fixture
def serve():
    return FakeServe([Replica("inference", "Inference", "replica-1", "RUNNING")])


@pytest.fixture
async def service(feed, serve, tokens):
    made = ConsoleService(access_by(tokens), feed.open, serve.read, max_clients=2)
    yield made
    await made.close()


@pytest.fixture
def app(service):
    return create_app(service)


@pytest.fixture
async def client(app):
    async with client_of(app, "/console") as client:
        yield client


@pytest.mark.parametrize("path", ["stream", "what_if?run=r&junction=j&lane=0"])
async def test_who_may_not_read_is_refused_and_noted_with_the_address(
    feed, serve, tokens, bearer, tmp_path, path
):
    store = open_store(f"sqlite:///{tmp_path / 'audit.db'}")
    audit = AuditBuffer(AuditLog(store))
    service = ConsoleService(access_by(tokens, audit), feed.open, serve.read)
    scopeless = {"Authorization": f"Bearer {tokens.issue('controller', ['act', 'reset'])}"}
    forged = {"Authorization": bearer["Authorization"][:-9] + "forged000"}
    challenge = 'Bearer error="insufficient_scope", scope="read"'
    async with client_of(create_app(service)) as client:
        for given, status, challenged in (
            ({}, 401, "Bearer"),
            (scopeless, 403, challenge),
            (forged, 401, "Bearer"),
        ):
            headers = {**given, "X-Forwarded-For": "203.0.113.9"}
            answer = await client.get(f"/{path}", headers=headers)
            assert (answer.status_code, set(answer.json())) == (status, {"detail"})
            assert answer.headers["www-authenticate"] == challenged
    await audit.flush()
    noted = await AuditLog(store).entries()
    await store.close()
    assert sorted(each.who for each in noted) == ["", "controller"]
    assert {(each.event, each.where) for each in noted} == {("token refused", "203.0.113.9")}
    assert all(each.detail.startswith("console: ") for each in noted)


async def test_without_login_everyone_may_look(feed, serve):
    app = create_app(ConsoleService(None, feed.open, serve.read))
    async with client_of(app, "/console") as client:
        answer = await client.get("/console/what_if?run=r&junction=300839359&lane=0")
        assert answer.status_code == 404
        assert "No decision" in answer.json()["detail"]


async def test_the_page_and_all_that_it_loads_come_from_here(client):
    page = await client.get("/console/")
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert (await client.get("/console")).headers["location"] == "console/"
    files = set(re.findall(r'(?:src|href)="([\w./-]+)"', page.text)) - {".."}
    for script in STATIC.glob("*.js"):
        files |= set(re.findall(r'from "\./([^"]+)"', script.read_text()))
    assert {"main.js", "style.css", "vendor/uplot/uPlot.esm.js"} <= files
    for file in files:
        assert (await client.get(f"/console/{file}")).status_code == 200, file
    for file in STATIC.glob("*.*"):
        assert not re.search(r"https?://(?!www\.w3\.org)", file.read_text()), file


async def test_no_other_file_is_served_and_errors_have_one_form(client, bearer):
    assert (await client.get("/console/livez")).json()["status"] == "alive"
    for path in ("nothing", "../api.py", "%2e%2e/api.py", "vendor"):
        answer = await client.get(f"/console/{path}")
        assert (answer.status_code, set(answer.json())) == (404, {"detail"}), path
    answer = await client.get("/console/stream", params={"run": "no name"}, headers=bearer)
    assert answer.status_code == 400


async def test_the_map_has_the_lanes_of_each_junction_in_the_order_of_its_observation(client):
    network = (await client.get("/console/map")).json()
    lanes = {lane["id"] for road in network["roads"] for lane in road["lanes"]}
    for junction in network["junctions"]:
        known = JUNCTIONS[junction["id"]]
        assert len(junction["approaches"]) == known.n_lanes
        assert {len(each["greens"]) for each in junction["approaches"]} == {known.n_phases}
        assert {each["lane"] for each in junction["approaches"]} <= lanes


async def test_what_is_told_is_shown_to_who_looks_and_nothing_is_watched_before(
    service, feed, serve
):
    assert (feed.opened, serve.asked) == (0, 0)
    with service.audience.member(None) as client:
        async with asyncio.timeout(5):
            assert shown(await service.next_event(client))["decisions"] == []
            feed.reports.put_nowait(report(decision(step=3)))
            while not (view := shown(await service.next_event(client)))["decisions"]:
                pass
            assert [each["step"] for each in view["decisions"]] == [3]
            while view["replicas"] is None:
                view = shown(await service.next_event(client))
            assert [each["state"] for each in view["replicas"]] == ["RUNNING"]
            while ["run"] not in feed.wanted:
                feed.reports.put_nowait(report())
                await service.next_event(client)


@virtual_time
async def test_an_open_page_is_shown_nothing_more_once_its_token_counts_no_more(
    feed, serve, tokens, bearer
):
    service = ConsoleService(access_by(tokens), feed.open, serve.read)
    parts, revoked_at = [], 3.0

    async def receive():
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message):
        if message.get("body", b"").startswith((b"data", b"event", b"id")):
            parts.append(asyncio.get_running_loop().time())

    scope: Any = {"type": "http", "method": "GET", "path": "/stream", "query_string": b""}
    scope["headers"] = [(b"authorization", bearer["Authorization"].encode())]
    stream = asyncio.create_task(create_app(service)(scope, receive, send))
    await asyncio.sleep(revoked_at)
    tokens.use(Keys([new_key("HS256", 0)]))
    await stream
    assert parts
    assert max(parts) <= revoked_at
    assert asyncio.get_running_loop().time() <= revoked_at + 2


@virtual_time
async def test_it_watches_once_however_many_look_and_ends_soon_after_the_last(feed, serve):
    service = ConsoleService(None, feed.open, serve.read)
    with service.audience.member(None) as one, service.audience.member(None) as other:
        until = asyncio.get_running_loop().time() + 10
        while asyncio.get_running_loop().time() < until:
            await asyncio.gather(service.next_event(one), service.next_event(other))
        asked = len(feed.wanted)
        assert asked == pytest.approx(10 / (COLLECT_S + PAUSE_S), abs=2), "one call at a time"
    await asyncio.sleep(2 * LINGER_S)
    counts = serve.asked, len(feed.wanted)
    await asyncio.sleep(60)
    assert (serve.asked, len(feed.wanted), feed.opened) == (*counts, 1)


@virtual_time
async def test_what_is_new_and_who_comes_new_do_not_wait_for_the_next_second(feed, serve):
    service = ConsoleService(None, feed.open, serve.read)
    now = asyncio.get_running_loop().time
    with service.audience.member(None) as first:
        await service.next_event(first)
        for number in range(10):
            await asyncio.sleep(10 + 0.1 * number)
            began = now()
            feed.reports.put_nowait(report(decision(step=number)))
            while not shown(await service.next_event(first))["decisions"]:
                pass
            assert now() - began <= EVENT_PERIOD_S + 1e-6
            await asyncio.sleep(10 + 0.1 * number)
            began = now()
            with service.audience.member(None) as other:
                assert shown(await service.next_event(other))["decisions"]
            assert now() - began <= EVENT_PERIOD_S + 1e-6


class Handle:
    """A feed that ends when nobody holds it, as an actor does with its creator's handle."""

    def __init__(self, feed: FakeFeed) -> None:
        self.collect, self.check = feed.collect, feed.check


@virtual_time
async def test_the_feed_is_held_while_nobody_looks(feed, serve):
    held: weakref.WeakSet[Handle] = weakref.WeakSet()

    async def open_feed():
        handle = Handle(feed)
        if not held:
            held.add(handle)  # handles that are got later do not keep it alive
        return handle

    service = ConsoleService(None, open_feed, serve.read)
    await service.hold_feed()
    (first,) = map(id, held)
    with service.audience.member(None) as client:
        await service.next_event(client)
    await service.checks["feed"].holds()
    await asyncio.sleep(2 * LINGER_S)
    gc.collect()
    assert [id(handle) for handle in held] == [first]


async def test_a_feed_that_dies_is_opened_anew(service, feed):
    with service.audience.member("run") as client:
        async with asyncio.timeout(10):
            await service.next_event(client)
            feed.reports.put_nowait(ConnectionResetError("the actor has died"))
            while feed.opened < 2:
                await service.next_event(client)
            feed.reports.put_nowait(report(decision()))
            while not shown(await service.next_event(client))["decisions"]:
                pass


@pytest.mark.parametrize("missing", [False, True])
async def test_ready_is_a_console_whose_feed_answers(client, feed, missing):
    feed.missing = missing
    answer = await client.get("/console/readyz")
    assert answer.status_code == (503 if missing else 200)
    assert (answer.json()["checks"]["feed"] == "ok") != missing


async def test_more_consoles_than_may_be_are_told_to_wait(service, client, bearer):
    with service.audience.member(None), service.audience.member(None):
        answer = await client.get("/console/stream", headers=bearer)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert "2 consoles are open" in json.loads(answer.content)["detail"]
