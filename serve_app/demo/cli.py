"""The closed loop: SUMO drives a rush hour, the running system decides every five seconds.

Each junction asks the gateway, as a roadside controller would. The same hour with the same
vehicles then runs under a fixed-time plan; the report compares the two, and says when the policy
was not to be had.
``python -m serve_app.demo --help`` lists the options.
"""

from __future__ import annotations

import argparse
import getpass
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from greenwave.client import (
    Client,
    GreenwaveError,
    UnauthorizedError,
    UnavailableError,
    UnusableAnswerError,
)
from serve_app.credentials.first_user import FIRST_USER, Credentials, known_credentials
from serve_app.credentials.inference_token import inference_tokens
from serve_app.demo.flow_forecasts import FlowForecasts
from serve_app.demo.gateway_controller import GatewayController
from serve_app.demo.inference_controller import INFERENCE_TIMEOUTS, InferenceController
from serve_app.demo.outages import Outage, OutageLog
from serve_app.launcher.ports import Ports, add_port_base
from serve_app.settings import Settings

if TYPE_CHECKING:
    from models.simulation.controllers import Controller
    from models.simulation.environment import Scenario
    from models.simulation.metrics import Metrics

INTERRUPTED = 130  # the shell's exit code for Ctrl-C
Remote = GatewayController | InferenceController
console = Console()


class DemoError(Exception):
    """The demo cannot run; the message says why and what to do."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; return the process's exit code."""
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
    add_port_base(parser)
    parser.add_argument("--url", help="of the gateway, or with --direct of the inference service")
    parser.add_argument("--direct", action="store_true", help="past the gateway: without login")
    parser.add_argument("--begin", type=clock_time, default="7:30", help="H:MM (default 7:30)")
    parser.add_argument("--seconds", type=int, default=3600, help="length (default 3600)")
    parser.add_argument("--seed", type=int, default=1, help="draws the vehicles (default 1)")
    parser.add_argument("--run-id", help="simulation run at the service (default: a new one)")
    arguments = parser.parse_args(argv)
    if arguments.seconds < 5 or arguments.seconds % 5:
        parser.error("--seconds must be a positive multiple of 5")
    if arguments.url is None:
        ports = Ports.from_base(arguments.port_base) if arguments.port_base else Ports()
        arguments.url = f"http://127.0.0.1:{ports.http}"
    return arguments


def clock_time(text: str) -> int:
    """Convert ``H:MM`` to seconds of the day."""
    hours, _, minutes = text.partition(":")
    if not (hours.isdecimal() and minutes.isdecimal() and int(hours) < 24 and int(minutes) < 60):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time of day such as 7:30")
    return int(hours) * 3600 + int(minutes) * 60


def run_demo(arguments: argparse.Namespace) -> int:
    """Check what is needed, run both controllers, print the comparison.

    Raises:
        DemoError: SUMO is not installed, or the system is not ready.
    """
    if find_spec("libsumo") is None:
        raise DemoError("SUMO is not installed. Install it with: pip install 'greenwave[sim]'")
    from models.simulation.detectors import Detectors
    from models.simulation.environment import Scenario
    from models.simulation.fixed_time import FixedTime
    from models.simulation.road_network import read_network

    network = read_network()
    scenario = Scenario(begin_s=arguments.begin, duration_s=arguments.seconds)
    run_id = arguments.run_id or f"demo-{uuid.uuid4().hex[:12]}"
    with make_client(arguments) as client:
        policy = make_remote(client, run_id, scenario, arguments.direct)
        prepare(policy, arguments.url)
        console.print(f"Run [bold]{run_id}[/bold] at {arguments.url}, seed {arguments.seed}")
        controllers: Mapping[str, Controller] = {
            "policy": policy,
            "fixed time": FixedTime(network, scenario),
        }
        results: dict[str, Metrics] = {}
        interrupted = False
        for name, controller in controllers.items():
            watching = [FlowForecasts(client, Detectors(network)).after_step] * (name == "policy")
            results[name], interrupted = drive(
                name, controller, scenario, arguments.seed, *watching
            )
            if interrupted:
                break
    report(results, policy, interrupted)
    return INTERRUPTED if interrupted else 0


def make_client(arguments: argparse.Namespace) -> Client:
    """Make a client of the gateway, which needs a login, or one of the inference service."""
    settings = Settings.of_instance(arguments.port_base)
    if arguments.direct:
        tokens = inference_tokens(settings)
        token = tokens[0] if tokens else None
        return Client(arguments.url, inference_token=token, timeouts=INFERENCE_TIMEOUTS)
    credentials = credentials_of(settings)
    return Client(arguments.url, credentials.username, credentials.password)


def credentials_of(settings: Settings) -> Credentials:
    """Return the credentials that `make up` has set or kept, or ask for them on the terminal.

    Raises:
        DemoError: there are no credentials, and there is nobody to ask.
    """
    credentials = known_credentials(settings)
    if credentials is None and sys.stdin.isatty():
        username = input(f"User of the gateway [{FIRST_USER}]: ") or FIRST_USER
        credentials = Credentials(username, getpass.getpass("Password: "))
    if credentials is None:
        raise DemoError(
            f"Who logs in? {settings.data_dir} keeps no password: start the system with `make up`"
            " and the same --port-base, or set JWT_AUTH_USERNAME and JWT_AUTH_PASSWORD."
        )
    return credentials


def make_remote(client: Client, run_id: str, scenario: Scenario, direct: bool) -> Remote:
    """Make the controller that asks the running system."""
    from models.simulation.environment import DECISION_S
    from models.simulation.fixed_time import FixedTime
    from models.simulation.road_network import read_network

    outages = OutageLog(scenario.begin_s, DECISION_S)
    if direct:
        return InferenceController(client, run_id, outages)
    return GatewayController(client, run_id, FixedTime(read_network(), scenario), outages)


def prepare(policy: Remote, url: str) -> None:
    """Make sure that the policy can be had, and reset the run.

    Raises:
        DemoError: nothing answers, it is not healthy, or it refuses the login or the reset.
    """
    try:
        status = policy.health()
        if status != "healthy":
            raise DemoError(f"The service at {url} is not ready: status {status}")
        policy.reset()
    except UnauthorizedError as error:
        raise DemoError(
            f"The gateway at {url} refuses this user and password. Set JWT_AUTH_USERNAME and"
            " JWT_AUTH_PASSWORD to those of one of its users."
        ) from error
    except UnusableAnswerError as error:
        raise DemoError(f"What answers at {url} is not this service") from error
    except UnavailableError as error:
        raise DemoError(f"No service answers at {url}. Start it first. ({error})") from error
    except GreenwaveError as error:
        raise DemoError(f"The service at {url} refused: {error}") from error


def drive(
    name: str,
    controller: Controller,
    scenario: Scenario,
    seed: int,
    after_step: Callable[[int], None] = lambda time_s: None,
) -> tuple[Metrics, bool]:
    """Run one controller; Ctrl-C ends it early. Return the metrics and whether that happened."""
    from models.simulation.environment import TrafficEnvironment

    with TrafficEnvironment(scenario) as environment:
        observations = environment.reset(seed)
        try:
            for _ in tqdm(range(scenario.n_decisions), desc=f"{name:>10}", unit="decision"):
                observations = environment.step(controller.act(observations))
                after_step(environment.time_s)
        except KeyboardInterrupt:
            return environment.metrics(), True
        return environment.metrics(), False


def report(results: Mapping[str, Metrics], policy: Remote, interrupted: bool) -> None:
    """Print the comparison and how the running system did."""
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
    if policy.latencies_s:
        median, slow = 1000 * np.percentile(policy.latencies_s, [50, 99])
        console.print(
            f"{len(policy.latencies_s)} requests {policy.WAY}:"
            f" median {median:.1f} ms, 99th percentile {slow:.1f} ms"
        )
    if policy.outages.outages:
        console.print(f"Without the policy, {policy.INSTEAD}:", style="yellow")
        for outage in policy.outages.outages:
            console.print(f"  {outage_line(outage)}", style="yellow", markup=False)


def outage_line(outage: Outage) -> str:
    """Say from when to when, in the simulation and by the clock, and why."""
    simulated = [time.strftime("%H:%M:%S", time.gmtime(t)) for t in (outage.begin_s, outage.end_s)]
    wall = [time.strftime("%H:%M:%S", time.localtime(t)) for t in (outage.began, outage.ended)]
    return (
        f"simulated {simulated[0]} to {simulated[1]}, by the clock {wall[0]} to {wall[1]}"
        f" ({outage.ended - outage.began:.1f} s): {outage.decisions} decisions, {outage.reason}"
    )


def comparison_rows(results: Sequence[Metrics]) -> list[tuple[str, list[float]]]:
    """Return the label and one value per result for each line of the table."""
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
