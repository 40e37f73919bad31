"""The demo's report: the comparison, and the latencies and outages of the running system."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

from serve_app.demo.gateway_controller import GatewayController, Outage

if TYPE_CHECKING:
    from lab.sim.metrics import Metrics

MAX_QUEUES = 20  # lines of the table
console = Console()


def report(results: Mapping[str, Metrics], policy: GatewayController, interrupted: bool) -> None:
    """Print the comparison, and the latencies and outages of the running system."""
    table = Table(title="Interrupted: partial result" if interrupted else "The same traffic, twice")
    table.add_column("per vehicle, and mean queue")
    for name in results:
        table.add_column(name, justify="right")
    table.add_column("ratio", justify="right")
    for label, values in comparison_rows(list(results.values())):
        comparable = len(values) == 2 and values[1] > 0 and not interrupted
        ratio = f"{values[0] / values[1]:.2f}" if comparable else "-"
        table.add_row(label, *(f"{value:,.1f}" for value in values), ratio)
    console.print(table)
    if policy.latencies_s:
        median, slow = 1000 * np.percentile(policy.latencies_s, [50, 99])
        console.print(
            f"{len(policy.latencies_s)} requests through the gateway, one per junction:"
            f" median {median:.1f} ms, 99th percentile {slow:.1f} ms"
        )
    if policy.outages:
        console.print("Without the policy, by the longest queue:", style="yellow")
        for outage in policy.outages:
            console.print(f"  {outage_line(outage)}", style="yellow", markup=False)


def outage_line(outage: Outage) -> str:
    begin, end = (time.strftime("%H:%M:%S", time.gmtime(t)) for t in (outage.begin_s, outage.end_s))
    return f"simulated {begin} to {end}: {outage.decisions} decisions, {outage.reason}"


def comparison_rows(results: Sequence[Metrics]) -> list[tuple[str, list[float]]]:
    """Return the label and one value per result for each line of the table.

    Of many junctions, only those with the longest queues have a line.
    """
    shown = list(results[0].queues)
    if len(shown) > MAX_QUEUES:
        shown.sort(key=lambda each: -max(metrics.queues[each] for metrics in results))
    return [
        ("waiting time (s)", [metrics.waiting_s for metrics in results]),
        ("travel time (s)", [metrics.trip_s for metrics in results]),
        ("time loss (s)", [metrics.delay_s for metrics in results]),
        ("vehicles arrived", [float(metrics.arrived) for metrics in results]),
        *(
            (f"queue {junction_id}", [metrics.queues[junction_id] for metrics in results])
            for junction_id in shown[:MAX_QUEUES]
        ),
    ]
