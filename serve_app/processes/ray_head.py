"""The head of Ray on this machine: its command, its environment, and what it needs to start."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from serve_app.errors import InstanceError
from serve_app.processes.ports import OF_EDGE, Ports, holder, is_free
from serve_app.ray_dashboard import token_environment
from serve_app.rollout.capacity import OBJECT_STORE_BYTES

PORT_TIMEOUT_S = 15.0
FREE_DISK_BYTES = 1 << 30


def command(ports: Ports, ray_dir: Path) -> list[str]:
    """Return the command that starts Ray and stays."""
    # Without the data folder on the path, which is the working folder.
    ray = [sys.executable, "-P", "-m", "deployments.ray_private.command"]
    # The monitor is for autoscaling in a cloud, and all of Ray ends when it dies.
    command = [*ray, "start", "--head", "--disable-usage-stats", "--no-monitor"]
    options = {
        "port": ports.gcs,
        "dashboard-host": "127.0.0.1",
        "dashboard-port": ports.dashboard,
        "dashboard-agent-listen-port": ports.agent,
        "include-log-monitor": False,  # it is for drivers, and no driver runs
        "metrics-export-port": ports.metrics,
        "min-worker-port": ports.workers[0],
        "max-worker-port": ports.workers[1],
        "node-ip-address": "127.0.0.1",
        "object-store-memory": OBJECT_STORE_BYTES,
        "temp-dir": ray_dir,
    }
    return command + [f"--{name}={value}" for name, value in options.items()]


def environment(ports: Ports) -> dict[str, str]:
    """Return the variables of Ray and Serve for these ports."""
    return {
        "RAY_SERVE_HAPROXY_METRICS_PORT": str(ports.haproxy_metrics),
        "RAY_SERVE_HAPROXY_STATS_PORT": str(ports.haproxy_stats),
        "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(ports.fallback_http),
        "RAY_SERVE_FALLBACK_PROXY_GRPC_PORT": str(ports.fallback_grpc),
        "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT": str(ports.replicas[0]),
        "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT": str(ports.replicas[1]),
        "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",  # as on nodes that others start
        # Ray's 15 would give everything else on the machine priority over replicas.
        "RAY_worker_niceness": "0",
        # Prestarted workers lack the environment of the applications, so none would be used.
        "RAY_prestart_worker_first_driver": "0",
        # Ended calls that the dashboard lists. Each takes 4 kB in the GCS, and a hundred end in
        # a minute: with Ray's default of 100,000 it would grow for hours.
        "RAY_task_events_max_num_task_in_gcs": "1000",
        # 16 arenas would keep 2 MB more in each replica.
        "MALLOC_ARENA_MAX": "2",
        # Unused metrics: the time of each handler, hundreds in a second at rest,
        # and the memory of the dashboard's processes, which Ray measures every 5 s.
        "RAY_event_stats": "0",
        "METRICS_RECORD_INTERVAL_S": "60",
        # Memory and CPU time of each worker, which Prometheus reads every 15 s; Ray's 5 s take 1 %.
        "REPORTER_UPDATE_INTERVAL_MS": "15000",
        # Bind all of Ray's ports to loopback. Otherwise Ray replaces 127.0.0.1 by the machine's
        # address, and listens on all addresses.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }


def token_variables(token_file: Path) -> dict[str, str]:
    """Return the variables by which Ray asks for a token, which is created if there is none.

    Raises:
        InstanceError: it cannot be written.
    """
    try:
        return token_environment(token_file)
    except OSError as error:
        raise InstanceError(
            f"Cannot write Ray's token to {token_file}: {error.strerror}. Set RAY_AUTH_TOKEN."
        ) from error


def check_disk(*places: Path) -> None:
    """Check that Ray has room on the disks of these folders.

    Raises:
        InstanceError: it has not.
    """
    for place in places:
        free = shutil.disk_usage(place).free
        if free < FREE_DISK_BYTES:
            raise InstanceError(
                f"Only {free >> 20} MB are free on the disk of {place}, and Ray needs 1 GB."
            )


def check_ports(ports: Ports) -> None:
    """Check that every port of Ray is free, or becomes free soon.

    Raises:
        InstanceError: a port is taken.
    """
    deadline = time.monotonic() + PORT_TIMEOUT_S
    of_edge = {"http", "edge_metrics", *OF_EDGE}
    of_ray = {name: port for name, port in ports.single().items() if name not in of_edge}
    for name, port in of_ray.items():
        while not is_free(port):
            owner = holder(port)
            # without a listener, a connection of a killed process holds it for a moment
            if owner or time.monotonic() > deadline:
                raise InstanceError(
                    f"Port {port} (for {name.replace('_', ' ')}) is taken{owner}."
                    " Stop that program, or choose other ports with --port-base."
                )
            time.sleep(0.1)
