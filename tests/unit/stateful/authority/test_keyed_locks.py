from __future__ import annotations

import asyncio

import pytest

from deployments.stateful.authority.eviction import KeyedLocks


async def test_work_on_one_name_goes_one_after_the_other_and_on_two_side_by_side():
    turns, log, gate = KeyedLocks(), [], asyncio.Event()

    async def work(name: str, label: str) -> None:
        async with turns.hold(name):
            log.append(f"{label} begins")
            await gate.wait()
            log.append(f"{label} ends")

    jobs = [asyncio.create_task(work(*job)) for job in (("a", "a1"), ("a", "a2"), ("b", "b1"))]
    await asyncio.sleep(0)
    assert log == ["a1 begins", "b1 begins"]
    gate.set()
    await asyncio.gather(*jobs)
    assert log.index("a1 ends") < log.index("a2 begins")


async def test_no_lock_is_kept_once_nobody_needs_it_however_the_work_ends():
    turns = KeyedLocks()
    with pytest.raises(ZeroDivisionError):
        async with turns.hold("a"):
            raise ZeroDivisionError
    async with turns.hold("b"):
        waiting = asyncio.create_task(turns.hold("b").__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert len(turns) == 1
    assert len(turns) == 0
