import pytest

from models.networks.file import InvalidNetworkError
from models.networks.shipped import SHIPPED, is_shipped
from serve_app.configured_network import configured_network, network_at_root

CITY = """{"name": "%s", "junctions": [
    {"id": "a", "agent_index": 0, "phases": [{}], "lanes": [{"id": "a_0", "capacity": 9}]}]}"""


def test_the_application_goes_before_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("NETWORK_PATH", raising=False)
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
