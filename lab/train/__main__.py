"""Train a policy for a network: ``python -m lab.train --network city.json ...``.

From greedy's rule, it imitates a planner that sees every vehicle, and MAPPO continues from what
validates better. Without --network it makes a policy for the shipped network, by 14 rounds of
imitation in hours of all levels of traffic. The same command resumes a killed run. Evaluations have
other seeds, 1 and onwards.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import BrokenExecutor
from copy import deepcopy
from dataclasses import fields, replace
from pathlib import Path
from typing import get_type_hints

import torch
from tqdm import tqdm

from lab.evaluate.cases import RESCO, STUDIES
from lab.evaluate.checks import check_routes, check_signals
from lab.sim.environment import layers_of
from lab.sim.options import add_scenario, refuse_city_options, scenario_of
from lab.sim.scenario import InvalidScenarioError, Scenario
from lab.sim.simulator import ENDED
from lab.train.checkpoint import InvalidCheckpointError
from lab.train.greedy import greedy_policy
from lab.train.imitation import imitate
from lab.train.mappo import Config, check_length
from lab.train.policy_network import read_policy, write_policy
from lab.train.run import best_of, train
from lab.train.traffic import VALIDATION_SEED, DrawnHours, OneScenario, Traffic
from models.networks.file import InvalidNetworkError
from models.networks.form import NetworkFile
from models.networks.network import network_of
from models.policy.file import read_weights
from models.policy.form import InvalidPolicyFileError

SHIPPED_CONFIG = Config(imitation_rounds=14, iterations=0)  # half an hour; MAPPO takes hours here

LEFT = """{trained}
{output}/best.th      the policy: {trained.score:.1f} s of mean delay on validation seeds
{output}/start.th     what MAPPO began with
{output}/log.csv      a row per iteration
{output}/checkpoint.pt what the same command continues from"""
SERVE = """Send it the same counts: {counts}. The signals had {times}. Write its serve config with

greenwave init --network {network} --policy {output}/best.th"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lab.train", description=(__doc__ or "").split("\n\n")[1]
    )
    add_scenario(parser, required=False)
    parser.add_argument(
        "--resco",
        type=Path,
        metavar="FOLDER",
        help="train for a map of RESCO, such as resco_benchmark/environments/cologne8, under the"
        " benchmark's rules and with all vehicles counted",
    )
    parser.add_argument(
        "--safety",
        action="store_true",
        help="train behind the safety layer, whose times replace yellow, all red and minimum green;"
        " the network file needs intergreen times",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder of the run")
    parser.add_argument(
        "--start",
        type=Path,
        metavar="FILE",
        help="the policy that a run begins with, such as best.th of another run (default: greedy's"
        " rule as weights)",
    )
    parser.add_argument("--validation-seeds", type=int, help="of a validation (default 6, or 2)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    hints = get_type_hints(Config, include_extras=True)
    for field in fields(Config):
        for text in getattr(hints[field.name], "__metadata__", ()):
            default = f" (default {field.default})"
            name = f"--{field.name.replace('_', '-')}"
            parser.add_argument(name, type=type(field.default), help=text + default)
    options = parser.parse_args()
    if (options.seed or 0) < 0 or options.workers < 1 or (options.validation_seeds or 1) < 1:
        parser.error("--seed is not negative, --workers and --validation-seeds are at least 1")
    if options.network is None:
        refuse_city_options(parser, options, but=() if options.resco else ("counts", "cyclic"))
    elif options.resco is not None:
        parser.error("--resco is a map with its own --network")
    try:
        run(options)
    except (
        InvalidCheckpointError,
        InvalidNetworkError,
        InvalidPolicyFileError,
        InvalidScenarioError,
        ValueError,
    ) as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"{error.filename or options.output}: {error.strerror}")
    except BrokenExecutor:
        sys.exit(ENDED)
    except KeyboardInterrupt:
        tqdm.write("Stopped; the same command continues from the last iteration that ended.")
        sys.exit(130)


def run(options: argparse.Namespace) -> None:
    """Do what the output folder lacks."""
    torch.set_num_threads(1)  # sums in another order would be another run
    output: Path = options.output
    start = output / "start.th"
    config = settings_of(options)
    traffic, network = traffic_of(options)
    check_length(config, traffic)
    if start.exists():
        check_start(network, start)
    else:
        if isinstance(traffic, OneScenario):
            check_signals(traffic.scenario)
            check_routes(traffic.scenario)
        torch.manual_seed(config.seed)
        given = options.start
        policy = read_policy(given, traffic.network) if given else greedy_policy(network)
        output.mkdir(parents=True, exist_ok=True)
        if config.imitation_rounds:
            first = deepcopy(policy)
            imitate(config, traffic, policy, output / "imitation.pt", options.workers)
            policy = best_of((policy, first), config, traffic, options.workers)
        write_policy(policy, start)
    trained = train(config, output, options.workers, traffic, start)
    tqdm.write(LEFT.format(output=output.resolve(), trained=trained))
    if isinstance(traffic, OneScenario) and options.network is not None:
        path, scenario = options.network.resolve(), traffic.scenario
        counts, times = scenario.counts, scenario.times
        tqdm.write(SERVE.format(output=output.resolve(), network=path, counts=counts, times=times))


def settings_of(options: argparse.Namespace) -> Config:
    is_shipped = options.network is None and options.resco is None
    config = SHIPPED_CONFIG if is_shipped else Config()
    chosen = {name: value for name, value in vars(options).items() if value is not None}
    given = {each.name: chosen[each.name] for each in fields(Config) if each.name in chosen}
    return replace(config, **given)


def traffic_of(options: argparse.Namespace) -> tuple[Traffic, NetworkFile]:
    """Return the traffic that the options name, and its network."""
    if options.network is not None or options.resco is not None:
        scenario = _map_of(options.resco) if options.resco else scenario_of(options)
        scenario = replace(scenario, guarded=options.safety)
        if scenario.guarded:
            layers_of(scenario)
        return OneScenario(scenario, options.validation_seeds or 6), scenario.network
    rules = options.safety, options.cyclic, options.counts
    hours = DrawnHours(options.validation_seeds or 2, *rules)
    return hours, hours.example.network


def _map_of(folder: Path) -> Scenario:
    """Return the scenario of a map of RESCO under the benchmark's rules.

    Raises:
        InvalidNetworkError, InvalidScenarioError: there is no such map.
    """
    maps = {each.name: each for each in STUDIES[RESCO]["compared"].traffic}
    if folder.name not in maps:
        raise InvalidScenarioError(f"{folder} is not a map of RESCO; these are: {', '.join(maps)}.")
    return maps[folder.name].scenario(VALIDATION_SEED, folder.parent)


def check_start(file: NetworkFile, path: Path) -> None:
    """Raise InvalidCheckpointError where a run of another network has begun."""
    try:
        read_weights(path, network_of(file))
    except InvalidPolicyFileError as error:
        raise InvalidCheckpointError(
            f"{path.parent} holds a run of another city; name another folder ({error})"
        ) from error


if __name__ == "__main__":
    main()
