"""The closed loop: SUMO simulates a rush hour, and the running system controls its signals.

Each junction asks the gateway every few seconds, as a roadside controller would. The same hour
with the same vehicles then runs under a fixed-time plan. The report compares the two, and lists
when the policy was unavailable. With --network it simulates any city; the second run uses the
signal programs of its net.

    make demo
    make demo ARGS="--begin 17:00 --seconds 1800"
    make demo ARGS="--network city.json --sumocfg city.sumocfg --url http://127.0.0.1:8000/city"
"""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tqdm import tqdm

from greenwave.client import Client
from models.simulation.options import add_scenario
from serve_app.demo.connect import DemoError, make_client, prepare
from serve_app.demo.gateway_controller import GatewayController
from serve_app.demo.inference_controller import InferenceController
from serve_app.demo.outages import OutageLog
from serve_app.demo.report import Remote, console, report
from serve_app.processes.ports import Ports, add_port_base

if TYPE_CHECKING:
    from models.simulation.controllers import Control
    from models.simulation.metrics import Metrics
    from serve_app.demo.stage import AfterStep, Stage

INTERRUPTED = 130  # the shell's exit code for Ctrl-C
NO_SUMO = "The demo needs SUMO. Install it with `make sim`."
CITY_ONLY = ("sumocfg", "net", "routes", "end")


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
        prog="make demo",
        usage='make demo ARGS="[options]"',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        conflict_handler="resolve",  # --begin of a city is a time of day here, too
    )
    add_port_base(parser)
    parser.add_argument("--url", help="of the gateway; with --direct, of the inference service")
    parser.add_argument(
        "--direct", action="store_true", help="ask the inference service without gateway and login"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the vehicles (default 1)")
    parser.add_argument("--run-id", help="simulation run at the service (default: a new one)")
    add_scenario(parser, required=False)
    parser.add_argument(
        "--begin", type=clock_time, help="H:MM or seconds (default 7:30, or a city's --sumocfg's)"
    )
    parser.add_argument("--seconds", type=int, help="length (default 3600, or a city's --end)")
    arguments = parser.parse_args(argv)
    check(parser, arguments)
    if arguments.url is None:
        ports = Ports.from_base(arguments.port_base) if arguments.port_base else Ports()
        arguments.url = f"http://127.0.0.1:{ports.http}"
    return arguments


def check(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Exit if options contradict each other."""
    if arguments.network is None:
        for name in CITY_ONLY:
            if getattr(arguments, name):
                parser.error(f"--{name} belongs to a city: add its --network")
        if arguments.seconds is not None and (arguments.seconds < 5 or arguments.seconds % 5):
            parser.error("--seconds must be a positive multiple of 5")
    elif arguments.seconds is not None:
        parser.error("--seconds belongs to the shipped network: use --end for a city")


def clock_time(text: str) -> int:
    """Convert ``H:MM``, or seconds, to seconds of the day."""
    hours, colon, minutes = text.partition(":")
    if not colon and hours.isdecimal():
        return int(hours)
    if not (hours.isdecimal() and minutes.isdecimal() and int(hours) < 24 and int(minutes) < 60):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time of day such as 7:30")
    return int(hours) * 3600 + int(minutes) * 60


def run_demo(arguments: argparse.Namespace) -> int:
    """Run both controllers and print the comparison.

    Raises:
        DemoError: SUMO is not installed, a file cannot be used, or the system is not ready.
    """
    if find_spec("libsumo") is None:
        raise DemoError(NO_SUMO)
    from models.networks.file import InvalidNetworkError
    from models.simulation.scenario import InvalidScenarioError
    from serve_app.demo.stage import stage_of

    try:
        stage = stage_of(arguments)
        with make_client(arguments) as client:
            return compare(stage, client, arguments)
    except (InvalidNetworkError, InvalidScenarioError) as error:
        raise DemoError(str(error)) from error


def compare(stage: Stage, client: Client, arguments: argparse.Namespace) -> int:
    """Run the policy and its peer for the same hour; return the exit code."""
    run_id = arguments.run_id or f"demo-{uuid.uuid4().hex[:12]}"
    policy = make_remote(client, run_id, stage, arguments.direct)
    prepare(policy, arguments.url)
    console.print(f"Run [bold]{run_id}[/bold] at {arguments.url}, seed {arguments.seed}")
    results: dict[str, Metrics] = {}
    results["policy"], interrupted = drive(
        "policy", lambda environment: policy, stage, arguments.seed, stage.watch(client)
    )
    if not interrupted:
        peer = stage.peer_in_words
        results[peer], interrupted = drive(peer, stage.peer, stage, arguments.seed)
    report(results, policy, interrupted)
    return INTERRUPTED if interrupted else 0


def make_remote(client: Client, run_id: str, stage: Stage, direct: bool) -> Remote:
    """Return the controller that asks the running system."""
    outages = OutageLog(stage.scenario.begin_s, stage.scenario.decision_s)
    if direct:
        return InferenceController(client, run_id, outages, stage.network)
    return GatewayController(
        client, run_id, stage.instead, outages, stage.network, stage.instead_in_words
    )


def drive(
    name: str,
    control: Control,
    stage: Stage,
    seed: int,
    after_step: AfterStep | None = None,
) -> tuple[Metrics, bool]:
    """Run one controller; return the metrics and whether Ctrl-C ended it early.

    Args:
        after_step: called after each step of the policy; None for its peer.
    """
    from models.simulation.controllers import open_run

    with open_run(stage.scenario, seed, control) as (environment, controller, observations):
        try:
            n_decisions = stage.scenario.n_decisions
            for _ in tqdm(range(n_decisions), desc=f"{name:>12}", unit="decision"):
                observations = environment.step(controller.act(observations))
                if after_step is not None:
                    after_step(environment.time_s)
        except KeyboardInterrupt:
            return environment.metrics(), True
        return environment.metrics(), False
