from __future__ import annotations

import asyncio

import pytest

from deployments.metrics.publisher import Publisher


async def test_it_publishes_again_and_again_until_it_is_stopped() -> None:
    third = asyncio.Event()
    calls = 0

    def publish() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            third.set()

    publisher = Publisher(publish, period_s=0.001)
    async with asyncio.timeout(5):
        await third.wait()
    publisher.check_health()
    publisher.stop()
    seen = calls
    await asyncio.sleep(0.01)
    assert calls == seen


async def test_what_is_added_later_is_published_too() -> None:
    added = asyncio.Event()
    publisher = Publisher(lambda: None, period_s=0.001)
    publisher.add(added.set)
    async with asyncio.timeout(5):
        await added.wait()
    publisher.stop()


async def test_a_failure_is_told_by_the_health_check_with_its_cause() -> None:
    def publish() -> None:
        raise ValueError("no such tag")

    publisher = Publisher(publish, period_s=0)
    with pytest.raises(RuntimeError, match="not published") as failure:
        await _check_until_it_fails(publisher)
    assert isinstance(failure.value.__cause__, ValueError)


async def _check_until_it_fails(publisher: Publisher) -> None:
    async with asyncio.timeout(5):
        while True:
            publisher.check_health()
            await asyncio.sleep(0)
