"""Prometheus and Grafana beside an instance, with its ports."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import httpx
import psutil
import pytest
import yaml

from load_tests.harness.free_ports import free_port
from serve_app.errors import CommandError
from serve_app.processes.instance import Instance
from serve_app.processes.monitoring import (
    MonitoringTool,
    grafana,
    prometheus,
    prometheus_config,
    running_tools,
)
from serve_app.processes.ports import Ports, is_free

BASE = 25000


@pytest.fixture
def instance(tmp_path):
    return Instance(tmp_path, Ports.from_base(BASE))


@pytest.fixture
def port():
    return free_port()


@pytest.mark.parametrize("with_edge", [True, False])
def test_it_asks_the_ports_of_its_instance(instance, with_edge):
    config = yaml.safe_load(prometheus_config(instance, 2.5, with_edge=with_edge))
    targets = {
        job["job_name"]: job["static_configs"][0]["targets"] for job in config["scrape_configs"]
    }
    ports = instance.ports
    expected = {"ray": ports.metrics, "haproxy": ports.haproxy_metrics}
    expected |= {"edge": ports.edge_metrics} if with_edge else {}
    assert targets == {name: [f"127.0.0.1:{port}"] for name, port in expected.items()}
    assert config["global"]["scrape_interval"] == "2500ms"


def test_prometheus_serves_our_rules_and_is_gone_afterwards(instance, port):
    tool = prometheus(instance, port, 1.0)
    if tool is None:
        pytest.skip("no prometheus on PATH; Debian: apt install prometheus")
    with running_tools([tool]) as (process,):
        rules = httpx.get(f"{tool.url}/api/v1/rules").json()["data"]["groups"]
        assert "greenwave" in {group["name"] for group in rules}
    assert not psutil.pid_exists(process.pid)
    assert is_free(port)


def test_a_port_that_is_taken_is_named(instance, port):
    taker = MonitoringTool("Taker", serving(port), port, "/", instance.data_dir / "log")
    with (
        running_tools([taker]),
        pytest.raises(CommandError, match=rf"^Port {port} \(Taker\) is taken by"),
        running_tools([taker]),
    ):
        pass


def test_one_that_does_not_start_stops_the_others(instance, port):
    log = instance.data_dir / "log"
    well = MonitoringTool("Well", serving(port), port, "/", log)
    ill = MonitoringTool("Ill", [sys.executable, "-c", "raise SystemExit(3)"], port + 1, "/", log)
    with pytest.raises(CommandError, match=r"^Ill does not start"), running_tools([well, ill]):
        pass
    assert is_free(port)


def serving(port: int) -> list[str]:
    return [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]


@pytest.fixture
def programs(tmp_path, monkeypatch):
    folder = tmp_path / "usr" / "bin"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_what_is_not_installed_is_none(instance, programs):
    assert prometheus(instance, 1, 1.0) is None
    assert grafana(instance, 1, "") is None


def test_grafana_has_the_places_of_dashboards_and_prometheus(instance, programs):
    program = programs / "grafana"
    program.touch()
    program.chmod(stat.S_IRWXU)
    tool = grafana(instance, 3000, "http://127.0.0.1:9090")
    assert tool is not None
    assert tool.env["GREENWAVE_PROMETHEUS"] == "http://127.0.0.1:9090"
    assert list(Path(tool.env["GREENWAVE_DASHBOARDS"]).glob("*.json"))
    assert Path(tool.env["GF_PATHS_PROVISIONING"], "dashboards", "greenwave.yml").exists()
    assert tool.env["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"
