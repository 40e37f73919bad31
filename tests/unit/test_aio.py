"""Periodic tasks, and calls at the same time."""

import asyncio
import logging

import pytest

from deployments.aio import PeriodicTask, SingleFlight
from tests.support.virtual_time import virtual_time


class Step:
    """Counts its calls; the first ones raise an error."""

    def __init__(self, fails: int = 0) -> None:
        self.calls = 0
        self._fails = fails

    def __call__(self) -> None:
        self.calls += 1
        if self.calls <= self._fails:
            raise OSError("no such disk")

    async def as_coroutine(self) -> None:
        self()


@pytest.mark.parametrize("is_async", [False, True])
@virtual_time
async def test_a_step_is_repeated_until_the_task_is_stopped(is_async):
    step = Step()
    task = PeriodicTask("The metrics", step.as_coroutine if is_async else step, 2.0)
    await asyncio.sleep(9)
    task.stop()
    await asyncio.sleep(9)
    assert step.calls == 4


def test_a_step_that_fails_is_repeated_and_logged_once(caplog):
    step = Step(fails=4)

    @virtual_time
    async def story():
        task = PeriodicTask("The file of keys", step)
        await asyncio.sleep(10.5)
        task.stop()

    with caplog.at_level(logging.WARNING, logger="ray.serve"):
        story()
    assert step.calls == 10
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert messages[0] == "The file of keys does not serve: no such disk"


@virtual_time
async def test_calls_at_the_same_time_are_one_and_outlive_who_asked_first():
    calls = 0

    async def call():
        nonlocal calls
        calls += 1
        await asyncio.sleep(1)
        return calls

    flight = SingleFlight(call)
    first, second = (asyncio.create_task(flight.result()) for _ in range(2))
    await asyncio.sleep(0.5)
    first.cancel()
    assert await second == 1
    assert await flight.result() == 2
