"""A cluster whose hidden states another one has, in a store that both were given."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools

import httpx
import pytest

from deployments.stateful.authority.fenced_writer import LeadershipRecord
from deployments.stateful.layout import Partition, agree_on_layout, table_of
from deployments.stateful.options import StateOptions
from deployments.store import Expected, Store, open_store
from load_tests.harness.system import application
from models.networks.shipped import SHIPPED
from serve_app.errors import DeployError
from tests.reference import JUNCTIONS

APP = "inference-shared"
THERE = LeadershipRecord(1, session="session-there", process="another-machine/1/1", lease_s=1.0)


async def act(store: Store, partition: Partition) -> None:
    """Keep the record of the partition as an authority of another cluster does."""
    stored = await store.get(table_of(APP), partition.row)
    for beat in itertools.count():
        record = dataclasses.replace(THERE, writes=beat).pack()
        condition = Expected(partition.row, stored)
        assert await store.change(table_of(APP), {partition.row: record}, when=condition)
        stored = record
        await asyncio.sleep(0.2)


async def test_it_is_refused_by_name_while_the_other_lives_and_serves_when_that_is_gone(
    system, tmp_path
):
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    shared = application(APP, "/shared", env={"STORE_URL": url})
    store = open_store(url)
    layout = await agree_on_layout(store, table_of(APP), StateOptions(), SHIPPED.digest)
    acting = asyncio.create_task(act(store, layout.partitions[0]))
    with pytest.raises(DeployError, match=r"Another Ray cluster \(session-there\) has the hidden"):
        await asyncio.to_thread(system.deploy, shared)
    acting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await acting
    await store.close()
    try:
        await asyncio.to_thread(system.remove, APP)
        await asyncio.to_thread(system.deploy, shared)
        body = {"junction_id": JUNCTIONS[0], "obs_data": [0.5]}
        answer = httpx.post(f"{system.url}/shared/predict_action", json=body, timeout=20)
        assert answer.status_code == 200
    finally:
        await asyncio.to_thread(system.remove, APP)
