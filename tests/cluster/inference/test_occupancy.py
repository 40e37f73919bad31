"""A cluster whose hidden states another one has, in a store that both were given."""

from __future__ import annotations

import socket

import httpx
import pytest

from deployments.stateful.admission import CLUSTER_ROW
from deployments.stateful.layout import table_of
from deployments.store import Expected, open_store
from load_tests.harness.system import application
from serve_app.errors import DeployError
from tests.reference import JUNCTIONS

APP = "inference-shared"


async def test_it_is_refused_by_name_while_the_other_lives_and_serves_when_that_is_gone(
    system, tmp_path
):
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    shared = application(APP, "/shared", env={"STORE_URL": url})
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        rows = {CLUSTER_ROW: address.encode()}
        store = open_store(url)
        assert await store.change(table_of(APP), rows, when=Expected(CLUSTER_ROW, None))
        with pytest.raises(DeployError, match=f"The Ray cluster at {address} has the hidden"):
            system.deploy(shared)
        assert [row async for row in store.scan(table_of(APP))] == list(rows.items())
        await store.close()
    try:
        system.remove(APP)
        system.deploy(shared)
        body = {"junction_id": JUNCTIONS[0], "obs_data": [0.5]}
        assert httpx.post(f"{system.url}/shared/predict_action", json=body).status_code == 200
    finally:
        system.remove(APP)
