"""Where an instance has its things, by the settings and its ``--port-base``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from serve_app.processes.edge import Edge, EdgePorts
from serve_app.processes.instance import Instance
from serve_app.processes.journal import Journal
from serve_app.processes.ports import Ports
from serve_app.processes.process_tags import Part
from serve_app.rollout.releases import Releases
from serve_app.settings import Settings


def instance_of(port_base: int | None) -> Instance:
    """Return the instance as it was started, or as it would be."""
    data_dir = Settings.of_instance(port_base).data_dir
    if port_base:
        temp_dir = Path(f"/tmp/greenwave-{port_base}")
        return Instance(data_dir, Ports.from_base(port_base), temp_dir).as_started()
    return Instance(data_dir).as_started()


def edge_of(instance: Instance, port_base: int | None) -> Edge:
    settings = Settings.of_instance(port_base)
    ports = EdgePorts.from_base(port_base) if port_base else EdgePorts()
    return Edge(
        instance,
        ports,
        settings.edge_host,
        settings.edge_certificate,
        settings.edge_inference_host,
    )


def journal_of(instance: Instance, part: Part) -> Journal:
    return Journal(instance.data_dir / f"{part}.json")


def releases_of(instance: Instance) -> Releases:
    return Releases(instance.data_dir / "releases")


def releases_of_cluster(dashboard_url: str) -> Releases:
    """Return what this machine has deployed on a cluster; nobody here starts that anew."""
    host = urlsplit(dashboard_url).netloc.replace(":", "-")
    return Releases(Settings().data_dir / "clusters" / host)


def as_released(instance: Instance) -> Instance:
    """Return the instance with Serve's front where the wanted config has it."""
    options = (releases_of(instance).wanted() or {}).get("http_options", {})
    front = options.get("port", instance.ports.front)
    return replace(instance, ports=replace(instance.ports, front=front))
