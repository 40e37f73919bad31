"""Streams of events: to who reads, who reads slowly, and who does not read at all."""

import asyncio
from typing import Any

import pytest

from deployments.console.stream import (
    SEND_S,
    STREAM_S,
    Audience,
    write_events,
)
from deployments.console.view import View
from deployments.http.errors import RefusedError
from models.networks.shipped import JUNCTIONS
from tests.support.virtual_time import virtual_time
from tests.unit.console.reports import decision, report, shown


class Browser:
    """The other end of a stream."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.reads.set()
        self.gone = asyncio.Event()
        self.messages: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        self.messages.append(message)


async def nothing() -> bytes:
    await asyncio.Event().wait()
    raise AssertionError


@virtual_time
async def test_a_stream_ends_for_the_next_to_follow():
    browser, started = Browser(), asyncio.get_running_loop().time()
    await write_events(browser.receive, browser.send, nothing)
    assert asyncio.get_running_loop().time() - started == pytest.approx(STREAM_S)
    assert browser.messages[0]["status"] == 200
    assert (b"content-type", b"text/event-stream") in browser.messages[0]["headers"]
    assert browser.messages[1]["body"].startswith(b"retry: ")
    assert browser.messages[-1] == {"type": "http.response.body", "body": b""}


@virtual_time
async def test_who_never_reads_is_given_up_and_leaves_the_place_to_others():
    audience, browser = Audience(1), Browser()
    with audience.member(None) as client:
        browser.reads.clear()
        started = asyncio.get_running_loop().time()
        with pytest.raises(RefusedError, match="1 consoles are open"), audience.member(None):
            pass
        client.events.put_nowait(b"x")
        await write_events(browser.receive, browser.send, client.events.get)
        assert asyncio.get_running_loop().time() - started == pytest.approx(SEND_S)
    assert len(audience) == 0


@virtual_time
async def test_the_stream_of_a_browser_that_goes_ends_at_once():
    browser = Browser()
    stream = asyncio.create_task(write_events(browser.receive, browser.send, nothing))
    await asyncio.sleep(1)
    browser.gone.set()
    started = asyncio.get_running_loop().time()
    await stream
    assert asyncio.get_running_loop().time() == started


@virtual_time
async def test_an_event_that_replaces_an_unread_one_has_its_decisions_too():
    audience, view = Audience(10), View(JUNCTIONS)
    with audience.member("run") as slow:
        for step in range(1, 5):
            view.add(report(decision(step=step)), 0.0)
            audience.show(view, step, 0.0)
            if step == 1:
                await slow.events.get()
        event = shown(await slow.events.get())
        assert event["at_ms"] == 4
        assert [each["step"] for each in event["decisions"]][-3:] == [2, 3, 4]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await slow.events.get()


@virtual_time
async def test_who_comes_new_is_told_all_and_afterwards_what_is_new():
    audience, view = Audience(10), View(JUNCTIONS)

    async def steps_of(client):
        return [each["step"] for each in shown(await client.events.get())["decisions"]]

    with audience.member("run") as first:
        view.add(report(decision(step=1)), 0.0)
        audience.show(view, 0, 0.0)
        assert await steps_of(first) == [1]
        view.add(report(decision(step=2)), 0.0)
        with audience.member("run") as second:
            audience.show(view, 0, 0.0)
            assert (await steps_of(first), await steps_of(second)) == ([2], [1, 2])
