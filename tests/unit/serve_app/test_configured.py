"""Networks, stores and records as arguments and the environment configure them."""

import pytest
import ray

from deployments.customers import record_types
from models.networks.file import InvalidNetworkError
from models.networks.shipped import SHIPPED, is_shipped
from serve_app.configured_network import configured_network, network_at_root
from serve_app.configured_replicas import require_shared_store
from serve_app.customers import configured
from serve_app.settings import Settings

CITY = """{"name": "%s", "junctions": [
    {"id": "a", "agent_index": 0, "phases": [{}], "lanes": [{"id": "a_0", "capacity": 9}]}]}"""


def test_the_application_goes_before_the_environment(tmp_path, monkeypatch):
    assert configured_network(None) is SHIPPED
    for name in ("one", "two"):
        (tmp_path / name).write_text(CITY % name)
    monkeypatch.setenv("NETWORK_PATH", str(tmp_path / "one"))
    assert configured_network(None).name == "one"
    network = configured_network(tmp_path / "two")
    assert network.name == "two"
    assert network.file is None
    assert not is_shipped(network)
    city = {"route_prefix": "/city", "args": {"network": str(tmp_path / "two")}}
    inference = {"route_prefix": "/"}
    assert network_at_root({"applications": [city, inference]}).name == "one"
    assert network_at_root({"applications": [city | inference]}).name == "two"


def test_a_file_that_is_no_network_is_refused(tmp_path):
    with pytest.raises(InvalidNetworkError, match=r"none\.json: cannot be read"):
        configured_network(tmp_path / "none.json")


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


def test_the_status_of_an_invalid_loans_update_is_a_setting_of_loans_alone(monkeypatch):
    types = record_types()
    assert {name: configured(name, Settings()) for name in types} == types
    monkeypatch.setenv("LOANS_UPDATE_VALIDATION_STATUS", "400")
    assert types["loans"].invalid_update_status == 200
    assert configured("loans", Settings()).invalid_update_status == 400
    assert configured("cards", Settings()) == types["cards"]
