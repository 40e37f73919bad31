"""Runs on a cluster, where about half of the requests reach a machine without the run's table."""

import asyncio
from contextlib import AsyncExitStack

import pytest
import torch

from load_tests.chaos.history import History
from models.policy.form import SHIPPED_POLICY
from tests.cluster.load import Load, assert_is_serial
from tests.nodes.watch import PATHS, runs_of_shards

RUNS = 4  # of each shard: on which machine a run is stepped is decided by a hash of its name


@pytest.mark.parametrize("service", ["inference", "lossless"])
async def test_every_run_is_exact_through_every_node(cluster, service, run_id):
    histories = {run: History() for run in runs_of_shards(run_id, RUNS)}
    loads = [
        Load(node.url + PATHS[service], run, n_clients=1, seed=node.number, history=history)
        for node in cluster.workers
        for run, history in histories.items()
    ]
    async with AsyncExitStack() as stack:
        for load in loads:
            await stack.enter_async_context(load)
        await asyncio.gather(*(load.more(100) for load in loads))
    weights = torch.load(SHIPPED_POLICY, weights_only=True)
    for history in histories.values():
        assert history.failures == []
        assert_is_serial(history, weights)
