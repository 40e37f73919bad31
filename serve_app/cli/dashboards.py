"""``greenwave dashboards``: Prometheus and Grafana beside the running system."""

from __future__ import annotations

import argparse
import time

from serve_app.cli.foreground import exit_on_sigterm
from serve_app.cli.status import running
from serve_app.cli.terminal import results
from serve_app.errors import CommandError
from serve_app.processes.installation import edge_of
from serve_app.processes.monitoring import MonitoringTool, grafana, prometheus, running_tools
from serve_app.processes.ports import add_port_base

PROMETHEUS_PORT, GRAFANA_PORT = 9090, 3000
FROM_BASE = 30  # the first of two ports, within those of a second instance
HOW_TO_GET = {
    "Prometheus": "Debian: apt install prometheus; others: https://prometheus.io/download",
    "Grafana": "https://grafana.com/grafana/download. Or import configs/grafana/dashboards/*.json "
    "into a Grafana that you have, or use compose.yaml",
}
_POLL_S = 0.5


def add_dashboards(dashboards: argparse.ArgumentParser) -> None:
    add_port_base(dashboards)
    dashboards.add_argument(
        "--every",
        type=float,
        default=15.0,
        help="seconds between two scrapes (default: %(default)g)",
    )
    dashboards.set_defaults(run=_dashboards)


def _dashboards(options: argparse.Namespace) -> None:
    instance = running(options)
    base = options.port_base and options.port_base + FROM_BASE
    ports = (base, base + 1) if base else (PROMETHEUS_PORT, GRAFANA_PORT)
    has_edge = edge_of(instance, options.port_base).is_running()
    found = {
        "Prometheus": prometheus(instance, ports[0], options.every, with_edge=has_edge),
        "Grafana": grafana(instance, ports[1], f"http://127.0.0.1:{ports[0]}"),
    }
    for name in (name for name, tool in found.items() if tool is None):
        results.print(f"{name} is not installed. {HOW_TO_GET[name]}.", style="yellow")
    if found["Prometheus"] is None:
        raise CommandError("Nothing has been started: Grafana needs Prometheus.")
    exit_on_sigterm()
    try:
        _show([each for each in found.values() if each is not None])
    except KeyboardInterrupt:
        results.print("Stopped.")


def _show(tools: list[MonitoringTool]) -> None:
    with running_tools(tools) as processes:
        for tool in tools:
            results.print(f"{tool.name:<14} {tool.url}")
        results.print(f"{'alerts':<14} {tools[0].url}/alerts")
        results.print("Stop it with Ctrl-C.")
        while all(process.poll() is None for process in processes):
            time.sleep(_POLL_S)
        pairs = zip(tools, processes, strict=True)
        ended = next(tool for tool, process in pairs if process.poll() is not None)
    raise CommandError(f"{ended.name} has ended; see {ended.log}.")
