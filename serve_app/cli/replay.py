"""``greenwave lab replay``: show a run of the evaluation in sumo-gui."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from lab.sim.options import add_scenario, scenario_of
from lab.sim.scenario import InvalidScenarioError
from models.networks.file import InvalidNetworkError
from models.policy.form import InvalidPolicyFileError
from serve_app.cli.demand import MAX_SEED
from serve_app.cli.hints import require
from serve_app.cli.terminal import notes
from serve_app.errors import CommandError, as_command_error, naming_broken_files


def add_replay(command: argparse.ArgumentParser) -> None:
    add_scenario(command)
    shown = command.add_mutually_exclusive_group(required=True)
    shown.add_argument("--policy", type=Path, help="agent.th to show")
    help = "controller of greenwave lab evaluate to show, such as greedy or 'max pressure'"
    shown.add_argument("--controller", metavar="NAME", help=help)
    help = "seed of the run, as in the evaluation (default 1)"
    command.add_argument("--seed", type=int, default=1, metavar="S", help=help)
    help = "simulate without a window, and print the delay"
    command.add_argument("--no-gui", action="store_true", help=help)
    command.set_defaults(run=_replay)


def _replay(options: argparse.Namespace) -> None:
    if not 0 <= options.seed <= MAX_SEED:
        raise CommandError(f"Seeds must be 0 to {MAX_SEED}.")
    if not options.no_gui and not os.environ.get("DISPLAY"):
        raise CommandError(
            "There is no display for sumo-gui, as DISPLAY is not set. Use a desktop or ssh -X, or"
            " simulate with --no-gui."
        )
    require("libsumo", "SUMO")
    with naming_broken_files():
        from lab.evaluate.checks import check_signals
        from lab.sim.controllers import CONTROLS, policy_control
        from lab.sim.replay import record, replay
    if options.policy is None and options.controller not in CONTROLS:
        raise CommandError(f"--controller must be one of: {', '.join(CONTROLS)}.")
    with as_command_error(InvalidNetworkError, InvalidScenarioError, InvalidPolicyFileError):
        scenario = scenario_of(options)
        check_signals(scenario)
        if options.policy is None:
            control = CONTROLS[options.controller](scenario)
        else:
            control = policy_control(scenario, options.policy)
        programs = record(scenario, options.seed, control)
        metrics = replay(scenario, options.seed, programs, gui=not options.no_gui)
    name = options.controller or options.policy
    delay = f"{metrics.delay_s:.1f} s of delay per vehicle"
    said = f"{name}, seed {options.seed}: {delay if metrics.demanded else 'no vehicles'}"
    if metrics.walks:
        longest_s = metrics.walk_delay_longest_s
        said += f", {metrics.walk_delay_s:.1f} s per pedestrian, {longest_s:.0f} s at most"
    notes.print(f"{said}.")
