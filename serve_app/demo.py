"""The closed loop: SUMO drives a rush hour, the running service decides every five seconds.

The same hour with the same vehicles then runs under a fixed-time plan; a table compares them.
``python -m serve_app.demo --help`` lists the options.
"""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import httpx
import numpy as np
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from serve_app.remote_signals import TIMEOUT, InferenceController

if TYPE_CHECKING:
    from models.simulation.controllers import Controller
    from models.simulation.environment import Scenario
    from models.simulation.metrics import Metrics

INTERRUPTED = 130  # the shell's exit code for Ctrl-C
console = Console()


class DemoError(Exception):
    """The demo cannot run; the message says why and what to do."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; returns the process's exit code."""
    arguments = parse_arguments(argv)
    try:
        return run_demo(arguments)
    except DemoError as error:
        console.print(str(error), style="red", markup=False)
        return 1


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="inference service")
    parser.add_argument("--begin", type=clock_time, default="7:30", help="H:MM (default 7:30)")
    parser.add_argument("--seconds", type=int, default=3600, help="length (default 3600)")
    parser.add_argument("--seed", type=int, default=1, help="draws the vehicles (default 1)")
    parser.add_argument("--run-id", help="simulation run at the service (default: a new one)")
    arguments = parser.parse_args(argv)
    if arguments.seconds < 5 or arguments.seconds % 5:
        parser.error("--seconds must be a positive multiple of 5")
    return arguments


def clock_time(text: str) -> int:
    """Seconds of the day from ``H:MM``."""
    hours, _, minutes = text.partition(":")
    if not (hours.isdecimal() and minutes.isdecimal() and int(hours) < 24 and int(minutes) < 60):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time of day such as 7:30")
    return int(hours) * 3600 + int(minutes) * 60


def run_demo(arguments: argparse.Namespace) -> int:
    """Check what is needed, run both controllers, print the comparison.

    Raises:
        DemoError: SUMO is not installed, or the service is not ready.
    """
    if find_spec("libsumo") is None:
        raise DemoError("SUMO is not installed. Install it with: pip install 'greenwave[sim]'")
    from models.simulation.environment import Scenario
    from models.simulation.fixed_time import FixedTime
    from models.simulation.road_network import read_network

    scenario = Scenario(begin_s=arguments.begin, duration_s=arguments.seconds)
    run_id = arguments.run_id or f"demo-{uuid.uuid4().hex[:12]}"
    with httpx.Client(base_url=arguments.url, timeout=TIMEOUT) as client:
        service = InferenceController(client, run_id)
        prepare_service(client, service)
        console.print(f"Run [bold]{run_id}[/bold] at {arguments.url}, seed {arguments.seed}")
        controllers: Mapping[str, Controller] = {
            "policy": service,
            "fixed time": FixedTime(read_network(), scenario),
        }
        results: dict[str, Metrics] = {}
        interrupted = False
        for name, controller in controllers.items():
            results[name], interrupted = drive(name, controller, scenario, arguments.seed)
            if interrupted:
                break
    report(results, service, interrupted)
    return INTERRUPTED if interrupted else 0


def prepare_service(client: httpx.Client, service: InferenceController) -> None:
    """Make sure that the service has a model, and reset the run.

    Raises:
        DemoError: it does not answer, is not healthy, or refuses the reset.
    """
    try:
        status = client.get("/health").raise_for_status().json()["status"]
        if status != "healthy":
            raise DemoError(f"The service at {client.base_url} is not ready: status {status}")
        service.reset()
    except httpx.HTTPStatusError as error:
        raise DemoError(f"The service at {client.base_url} refused: {error}") from error
    except httpx.HTTPError as error:
        raise DemoError(
            f"No service answers at {client.base_url} ({type(error).__name__}). Start it first."
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise DemoError(f"What answers at {client.base_url} is not this service") from error


def drive(name: str, controller: Controller, scenario: Scenario, seed: int) -> tuple[Metrics, bool]:
    """Run one controller; Ctrl-C ends it early. Returns the metrics and whether that happened."""
    from models.simulation.environment import TrafficEnvironment

    with TrafficEnvironment(scenario) as environment:
        observations = environment.reset(seed)
        try:
            for _ in tqdm(range(scenario.n_decisions), desc=f"{name:>10}", unit="decision"):
                observations = environment.step(controller.act(observations))
        except KeyboardInterrupt:
            return environment.metrics(), True
        return environment.metrics(), False


def report(results: Mapping[str, Metrics], service: InferenceController, interrupted: bool) -> None:
    """Print the comparison and how the service did."""
    table = Table(title="Interrupted: partial result" if interrupted else "The same hour, twice")
    table.add_column("per vehicle, and mean queue")
    for name in results:
        table.add_column(name, justify="right")
    table.add_column("ratio", justify="right")
    for label, values in comparison_rows(list(results.values())):
        comparable = len(values) == 2 and values[1] > 0 and not interrupted
        ratio = f"{values[0] / values[1]:.2f}" if comparable else "-"
        table.add_row(label, *(f"{value:,.1f}" for value in values), ratio)
    console.print(table)
    if service.latencies_s:
        median, slow = 1000 * np.percentile(service.latencies_s, [50, 99])
        console.print(
            f"{len(service.latencies_s)} requests of five junctions:"
            f" median {median:.1f} ms, 99th percentile {slow:.1f} ms"
        )
    if service.lost_decisions:
        console.print(
            f"{service.lost_decisions} decisions lost, those junctions kept their phase."
            f" Last reason: {service.last_problem}",
            style="yellow",
            markup=False,
        )


def comparison_rows(results: Sequence[Metrics]) -> list[tuple[str, list[float]]]:
    """Label and one value per result for each line of the table."""
    return [
        ("waiting time (s)", [metrics.waiting_s for metrics in results]),
        ("travel time (s)", [metrics.travel_s for metrics in results]),
        ("time loss (s)", [metrics.time_loss_s for metrics in results]),
        ("vehicles arrived", [float(metrics.arrived) for metrics in results]),
        *(
            (f"queue {junction_id}", [metrics.queues[junction_id] for metrics in results])
            for junction_id in results[0].queues
        ),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
