"""compose.yaml is by the specification, confines every container and has no secret in it."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from load_tests.harness.shipped import shipped_config
from serve_app.processes.edge import Edge
from serve_app.processes.instance import Instance
from serve_app.processes.ports import Ports
from serve_app.processes.ray_head import FREE_DISK_BYTES
from serve_app.rollout.capacity import megabytes_of_ray, most
from serve_app.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())
PROMETHEUS = 9090
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]

every_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)


def test_it_is_by_the_specification():
    merged = yaml.safe_dump(COMPOSE)  # `<<` is YAML's
    read = PyCompose.from_yaml(re.sub(r":\S+@", "@", merged))  # it refuses a tag with a digest
    read.validate()
    read.validate_networks()
    read.validate_volumes()
    mounted = [each.partition(":")[0] for one in SERVICES.values() for each in one["volumes"]]
    named = {each for each in mounted if not each.startswith(".")}
    assert named == set(COMPOSE["volumes"])


def test_ray_can_be_restarted_beside_its_logs():
    (mounted,) = SERVICES["greenwave"]["tmpfs"]
    gigabytes = re.search(r"size=(\d+)g", mounted)
    assert gigabytes is not None
    assert int(gigabytes[1]) << 30 >= 2 * FREE_DISK_BYTES


@every_service
def test_no_container_can_do_more_than_it_must(service):
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "pid"} & set(service)
    assert service.get("network_mode") in (None, "service:greenwave")


@every_service
def test_memory_processes_and_logs_are_bounded(service):
    assert re.fullmatch(r"\d+[gm]", service["mem_limit"])
    assert service["pids_limit"] > 0
    assert set(service["logging"]["options"]) == {"max-size", "max-file"}


@every_service
def test_ports_are_published_on_this_machine_alone(service):
    assert all(each.startswith("127.0.0.1:") for each in service.get("ports", []))


@every_service
def test_images_are_pinned_by_version_and_digest(service):
    pinned = r"[\w/]+:v?\d+\.\d+\.\d+(-\w+)?@sha256:[0-9a-f]{64}"
    assert "build" in service or re.fullmatch(pinned, service["image"])


def test_the_ports_are_those_of_the_edge():
    published = {int(each.split(":")[1]) for each in SERVICES["greenwave"]["ports"]}
    ports = Ports()
    edge = {ports.http, ports.gateway, ports.density, ports.loans, ports.cards}
    assert published == edge | {PROMETHEUS}


def test_each_waits_until_what_it_needs_is_healthy_but_who_watches_the_system():
    for service in SERVICES.values():
        for needed, how in service.get("depends_on", {}).items():
            watched = needed == "greenwave"  # also while it cannot start
            assert how["condition"] == ("service_started" if watched else "service_healthy")


def test_everything_has_a_healthcheck():
    assert [name for name, each in SERVICES.items() if "healthcheck" not in each] == []


def test_the_system_is_healthy_when_every_service_is_ready():
    """Its two applications of the accounts are one service."""
    *_, program = SERVICES["greenwave"]["healthcheck"]["test"]
    asked: list[str] = []
    opened = {"urlopen": lambda url, timeout: asked.append(url)}
    exec(program.replace("from urllib.request import urlopen", ""), opened)
    prefixes = {each["route_prefix"].rstrip("/") for each in shipped_config()["applications"]}
    prefixes.remove("/api/account")
    edge = Edge(Instance(ROOT))
    assert set(asked) == {edge.url_of(prefix or "/").rstrip("/") + "/readyz" for prefix in prefixes}


def test_every_secret_comes_from_outside_and_has_no_default():
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|TOKEN|AUTH$|URL", name):
                assert "${" in value, name
    asked = re.findall(r"\$\{(\w+)([^}]*)\}", FILE.read_text())
    assert {rest for _, rest in asked} == {":?see compose.yaml"}
    (listed,) = re.findall(r"for name in ([A-Z_ ]+);", FILE.read_text())
    assert {name for name, _ in asked} == set(listed.split())


def test_a_lost_secret_file_is_neither_committed_nor_sent_to_the_builder():
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()
    assert "!.env" not in (ROOT / ".dockerignore").read_text()


def test_its_variables_are_ones_that_are_read():
    ours = {name.upper() for name in Settings.model_fields}
    assert {
        name for name in SERVICES["greenwave"]["environment"] if not name.startswith("RAY_")
    } <= ours


def test_the_largest_number_of_replicas_finds_memory():
    shipped = shipped_config()
    needed = most(shipped).megabytes + megabytes_of_ray(1)
    assert int(SERVICES["greenwave"]["mem_limit"].removesuffix("g")) * 1000 > needed
    assert f"{needed / 1000:.1f} GB at the largest number of replicas" in FILE.read_text()


def test_the_store_keeps_what_it_has_answered():
    config = SERVICES["redis"]["command"][-1]
    for line in ("appendonly yes", "appendfsync always", "maxmemory-policy noeviction"):
        assert line in config.splitlines()
    assert "/data" in SERVICES["redis"]["volumes"][0]


def test_prometheus_asks_where_the_metrics_are():
    prometheus = yaml.safe_load((ROOT / "configs" / "prometheus.yml").read_text())
    targets = {
        job["job_name"]: job["static_configs"][0]["targets"] for job in prometheus["scrape_configs"]
    }
    ports = Ports()
    assert targets == {
        "ray": [f"127.0.0.1:{ports.metrics}"],
        "haproxy": [f"127.0.0.1:{ports.haproxy_metrics}"],
        "edge": [f"127.0.0.1:{ports.edge_metrics}"],
    }
    assert prometheus["rule_files"] == ["rules/*.yml"]
    assert "./configs/rules:/etc/prometheus/rules:ro" in SERVICES["prometheus"]["volumes"]
    assert SERVICES["prometheus"]["network_mode"] == "service:greenwave"


def test_grafana_asks_prometheus_where_it_listens_and_finds_the_dashboards():
    grafana = SERVICES["grafana"]
    provisioning = ROOT / "configs" / "grafana" / "provisioning"
    source = (provisioning / "datasources" / "greenwave.yml").read_text()
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "greenwave.yml").read_text())[
        "providers"
    ]
    environment, mounted = grafana["environment"], grafana["volumes"]
    assert "url: $GREENWAVE_PROMETHEUS" in source
    assert environment["GREENWAVE_PROMETHEUS"] == f"http://greenwave:{PROMETHEUS}"
    assert provider["options"]["path"] == "$GREENWAVE_DASHBOARDS"
    place = environment["GREENWAVE_DASHBOARDS"]
    assert f"./configs/grafana/dashboards:{place}:ro" in mounted
    assert "./configs/grafana/provisioning:/etc/grafana/provisioning:ro" in mounted
    assert set(grafana["networks"]) <= set(SERVICES["greenwave"]["networks"])
