"""One cluster of a head and two workers, on which the inference runs twice, once without loss."""

import copy
from collections.abc import Iterator

import pytest

from load_tests.harness.shipped import Config
from load_tests.harness.waiting import wait_until
from tests.cluster.conftest import own_states_folder as own_states_folder
from tests.cluster.conftest import policy_file as policy_file
from tests.cluster.conftest import run_id as run_id
from tests.cluster.conftest import system as system
from tests.nodes.cluster import Cluster, cluster_config, open_cluster
from tests.support.network import why_not

SPREAD_S = 60.0


def small_config() -> Config:
    """Return configs/cluster.yaml with some of its applications, and inference without loss."""
    config = cluster_config("inference", "gateway", "loans")
    lossless = copy.deepcopy(config["applications"][0])
    lossless |= {"name": "inference-lossless", "route_prefix": "/lossless"}
    lossless["args"] |= {"durability": "durable"}
    config["applications"].append(lossless)
    return config


@pytest.fixture(scope="package")  # three Rays less while other tests measure
def shared_cluster() -> Iterator[Cluster]:
    if reason := why_not():
        pytest.skip(reason)
    with open_cluster(n_workers=2) as cluster:
        cluster.deploy(small_config())
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    """Wait until everything is on every worker, as it must be without help, also after a fault."""
    workers = shared_cluster.workers
    wait_until(lambda: shared_cluster.is_spread(*workers), SPREAD_S, "everything on every worker")
    return shared_cluster
