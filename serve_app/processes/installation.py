"""The instance that the settings and ``--port-base`` name, and its parts."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from serve_app.processes.edge import Edge
from serve_app.processes.edge_backends import cities_of
from serve_app.processes.instance import Instance
from serve_app.processes.ports import Ports
from serve_app.processes.process_tags import Role
from serve_app.processes.status_file import StatusFile
from serve_app.rollout.releases import Releases
from serve_app.settings import Settings


def instance_of(port_base: int | None) -> Instance:
    """Return the instance as it was started, or as it would be."""
    data_dir = Settings.of_instance(port_base).data_dir
    ports = Ports.from_base(port_base) if port_base else Ports()
    return Instance(data_dir, ports).with_recorded_ports()


def edge_of(instance: Instance) -> Edge:
    settings = Settings()
    return Edge(
        instance,
        settings.edge_host,
        settings.edge_certificate,
        settings.edge_inference_host,
        settings.edge_allowed_hosts,
        cities_of(releases_of(instance).wanted() or {}),
    )


def status_file_of(instance: Instance, role: Role) -> StatusFile:
    return StatusFile(instance.data_dir / f"{role}.json")


def releases_of(instance: Instance) -> Releases:
    return Releases(instance.data_dir / "releases")


def releases_of_cluster(dashboard_url: str) -> Releases:
    """Return the releases that this machine has deployed on a cluster without supervision."""
    host = urlsplit(dashboard_url).netloc.replace(":", "-")
    return Releases(Settings().data_dir / "clusters" / host)


def with_released_port(instance: Instance) -> Instance:
    """Return the instance with Serve at the port that the wanted release names."""
    options = (releases_of(instance).wanted() or {}).get("http_options", {})
    front = options.get("port", instance.ports.front)
    return replace(instance, ports=replace(instance.ports, front=front))
