"""A cluster whose hidden states another one has, in a store that both were given."""

import asyncio
import contextlib
import dataclasses
import itertools

import pytest

from deployments.stateful.shards import table_of
from deployments.stateful.term import HomeRecord, record_row
from deployments.store import Expected, Store, open_store
from load_tests.harness.system import System, application
from tests.cluster.inference.conftest import step
from tests.support.waiting import until

APP = "inference-shared"
THERE = HomeRecord(1, "another-table", "another-machine/1/1", "session-there", lease_s=1.0)


async def act(store: Store) -> None:
    """Keep the record of the shard as the home of another cluster does."""
    stored = None
    for beat in itertools.count():
        record = dataclasses.replace(THERE, writes=beat).pack()
        condition = Expected(record_row(0), stored)
        assert await store.change(table_of(APP), {record_row(0): record}, when=condition)
        stored = record
        await asyncio.sleep(0.2)


@pytest.mark.timeout(400)
async def test_it_is_refused_while_the_other_acts_and_serves_when_that_is_gone(
    system, tmp_path, run_id
):
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    store = open_store(url)
    acting = asyncio.create_task(act(store))
    shared = application(APP, f"/{APP}", env={"STORE_URL": url})
    deploying = asyncio.create_task(asyncio.to_thread(system.deploy, shared))
    try:
        refusal = "in another cluster. Stop these first"
        await asyncio.to_thread(until, lambda: refusal in messages(system))
        assert not deploying.done()
        acting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await acting
        await store.close()
        await deploying
        assert await asyncio.to_thread(step, system, APP, run_id) == 1
    finally:
        await asyncio.gather(deploying, return_exceptions=True)
        await asyncio.to_thread(system.remove, APP)


def messages(system: System) -> str:
    """Return what Serve reports of the application's deployments."""
    found = system.instance.dashboard.applications().get(APP, {}).get("deployments", {})
    return "".join(each["message"] for each in found.values())
