"""``greenwave demo``: SUMO simulates a rush hour, and the running system controls its signals.

Each junction asks the gateway every few seconds, as a roadside controller would. The same hour
with the same vehicles then runs under a fixed-time plan, or, for any other city, under the signal
programs of its net. The report compares the two, and lists when the policy was unavailable.
"""

from __future__ import annotations

import argparse
import time
import uuid
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tqdm import tqdm

from greenwave.client import Client
from lab.sim.options import add_scenario, refuse_city_options
from serve_app.cli.hints import require
from serve_app.cli.lab import MAX_SEED
from serve_app.demo.connect import addresses_of, counts_for, make_client, prepare
from serve_app.demo.gateway_controller import GatewayController
from serve_app.demo.report import console, report
from serve_app.errors import CommandError
from serve_app.processes.ports import add_port_base

if TYPE_CHECKING:
    from lab.sim.controllers import Control
    from lab.sim.metrics import Metrics
    from serve_app.demo.stage import AfterStep, Stage


def add_demo(command: argparse.ArgumentParser) -> None:
    add_port_base(command)
    command.add_argument("--url", help="of the gateway")
    command.add_argument("--seed", type=int, default=1, help="of the vehicles (default 1)")
    add_scenario(command, required=False)
    command.add_argument(
        "--safety",
        action="store_true",
        help="simulate the safety layer, and send what each junction shows, as a gateway with"
        " `safety: true` asks",
    )
    command.add_argument("--seconds", type=int, help="length (default 3600, or a city's --end)")
    speed = "simulated seconds per second (default 20); 0 for as fast as possible"
    command.add_argument("--speed", type=float, default=20.0, metavar="N", help=speed)
    command.set_defaults(run=partial(_demo, command), counts=None)


def check(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Exit if options contradict each other.

    Raises:
        CommandError: SUMO does not take the seed.
    """
    if not 0 <= arguments.seed <= MAX_SEED:
        raise CommandError(f"--seed must be 0 to {MAX_SEED}.")
    if arguments.network is None:
        refuse_city_options(parser, arguments, but=("begin", "counts"))
        if arguments.seconds is not None and (arguments.seconds < 5 or arguments.seconds % 5):
            parser.error("--seconds must be a positive multiple of 5")
    elif arguments.seconds is not None:
        parser.error("--seconds belongs to the shipped network: use --end for a city")


def _demo(command: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    check(command, options)
    require("libsumo", "SUMO")
    from serve_app.demo.stage import behind_safety_layer, stage_of

    addresses = addresses_of(options.port_base, options.url)
    options.url = addresses.gateway
    stage = stage_of(options)
    if options.safety:
        stage = behind_safety_layer(stage)
    with make_client(options, addresses) as client:
        compare(stage, client, options)


def compare(stage: Stage, client: Client, arguments: argparse.Namespace) -> None:
    """Run the policy and its peer for the same hour, and print the comparison.

    Raises:
        KeyboardInterrupt: Ctrl-C ended one of them early; the comparison is printed.
    """
    from serve_app.demo.stage import OwnQueues

    run_id = f"demo-{uuid.uuid4().hex[:12]}"
    own_queues = OwnQueues(stage.scenario.network)
    policy = GatewayController(client, run_id, stage.scenario, own_queues)
    prepare(client, run_id, stage.scenario, arguments.url)
    counts = counts_for(client, arguments.counts, arguments.url)
    stage = replace(stage, scenario=replace(stage.scenario, counts=counts))
    console.print(f"Run [bold]{run_id}[/bold] at {arguments.url}, seed {arguments.seed}")
    results: dict[str, Metrics] = {}
    results["policy"], interrupted = drive(
        "policy", policy.follow, stage, arguments.seed, stage.watch(client), arguments.speed
    )
    if not interrupted:
        peer = stage.peer_in_words
        results[peer], interrupted = drive(peer, stage.peer, stage, arguments.seed)
    report(results, policy, interrupted)
    if interrupted:
        raise KeyboardInterrupt


def drive(
    name: str,
    control: Control,
    stage: Stage,
    seed: int,
    after_step: AfterStep | None = None,
    speed: float = 0.0,
) -> tuple[Metrics, bool]:
    """Run one controller; return the metrics and whether Ctrl-C ended it early.

    Args:
        after_step: called after each step of the policy; None for its peer.
        speed: most simulated seconds per second; 0 for no limit.
    """
    from lab.sim.controllers import open_run

    with open_run(stage.scenario, seed, control) as (environment, controller, observations):
        try:
            n_decisions = stage.scenario.n_decisions
            for _ in tqdm(range(n_decisions), desc=f"{name:>12}", unit="decision"):
                next_at = time.monotonic() + (stage.scenario.decision_s / speed if speed else 0)
                observations = environment.step(controller.act(observations))
                if after_step is not None:
                    after_step(environment.time_s)
                time.sleep(max(0.0, next_at - time.monotonic()))
        except KeyboardInterrupt:
            return environment.metrics(), True
        return environment.metrics(), False
