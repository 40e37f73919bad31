"""Which store a cluster may have, and which nodes Ray lets into it."""

import pytest
import ray

from serve_app.configured_replicas import require_shared_store


def nodes(*addresses: str, dead: tuple[str, ...] = ()) -> list[dict[str, object]]:
    living = [{"NodeManagerAddress": each, "Alive": True} for each in addresses]
    return [*living, *({"NodeManagerAddress": each, "Alive": False} for each in dead)]


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    return monkeypatch


def test_an_embedded_store_is_refused_on_several_machines(cluster):
    cluster.setenv("STORE_URL", "sqlite:////data/greenwave.db")
    cluster.setattr(ray, "nodes", lambda: nodes("10.0.0.1", "10.0.0.2"))
    with pytest.raises(ValueError, match=r"the cluster has 2 machines.*Set STORE_URL=redis://"):
        require_shared_store()


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("sqlite:////data/greenwave.db", nodes("10.0.0.1", dead=("10.0.0.2",))),
        ("sqlite:////data/greenwave.db", nodes("10.0.0.1", "10.0.0.1")),
        ("redis://10.0.0.5:6379/0", nodes("10.0.0.1", "10.0.0.2")),
    ],
    ids=["one lives", "two nodes of one machine", "a store for all"],
)
def test_a_store_that_every_replica_reaches_is_not(cluster, url, known):
    cluster.setenv("STORE_URL", url)
    cluster.setattr(ray, "nodes", lambda: known)
    require_shared_store()
