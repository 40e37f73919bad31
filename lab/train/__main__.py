"""Train a policy for a network: ``python -m lab.train --network city.json ...``.

It begins with greedy's rule and continues with MAPPO. Without --network it makes the shipped
policy, from hours of all levels of traffic; with --safety, that for behind the safety layer, which
imitates a planner. The same command resumes a killed run.
Evaluations have other seeds, 1 and onwards.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import OrderedDict
from concurrent.futures import BrokenExecutor
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
from lab.train.checkpoint import InvalidCheckpointError, write_atomically
from lab.train.greedy import fits, make_greedy
from lab.train.imitation import imitate
from lab.train.mappo import Config
from lab.train.policy_network import (
    RecurrentPolicy,
    initialise,
    mean_weights,
    read_state_dict,
)
from lab.train.run import train
from lab.train.traffic import VALIDATION_SEED, DrawnHours, OneScenario, Traffic
from models.networks.file import InvalidNetworkError
from models.networks.form import NetworkFile
from models.networks.network import network_of
from models.policy.form import SHIPPED_POLICY, InvalidPolicyFileError, PolicyForm

# Settings of the shipped policies, and rounds of imitation.
POLICY = Config(
    iterations=60,
    episodes=24,
    repeats=4,
    critic_iterations=2,
    gamma=0.995,
    actor_rate=1.2e-3,
    average_decay=0.9,
    validate_every=10,
)
SAFE_POLICY, SAFE_ROUNDS = Config(iterations=0), 14

RULES = "greedy", "clearing"
LEFT = """{trained}
{output}/best.th      the policy: {trained.score:.1f} s of mean delay on validation seeds
{output}/last.th      the policy of the last iteration
{output}/start.th     the policy that it began with
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
        help="of a run that has not begun: greedy; clearing, which is greedy that clears short"
        " lanes between signals first; or a policy's file, such as best.th of another run; or"
        " several, separated by commas: then the mean of their weights (default: greedy)",
    )
    parser.add_argument(
        "--imitation-rounds",
        type=int,
        help="of 8 simulated hours, in which a planner that sees all is imitated before MAPPO"
        " begins (default 0)",
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
        refuse_city_options(parser, options, but=("counts", "cyclic"))
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
    torch.set_num_threads(1)
    output: Path = options.output
    start = output / "start.th"
    config, rounds, rule = settings_of(options)
    if not config.iterations and not rounds:
        raise ValueError("iterations 0 is less than 1")
    traffic, network = traffic_of(options)
    if start.exists():
        check_start(network, start)
    else:
        if isinstance(traffic, OneScenario):
            check_signals(traffic.scenario)
            check_routes(traffic.scenario)
        first = output / "first.th" if rounds else start
        write_start(network, config.seed, first, rule)
        if first != start:
            imitate(rounds, config.seed, traffic, first, start, options.workers)
    trained = train(config, output, options.workers, traffic, start)
    tqdm.write(LEFT.format(output=output.resolve(), trained=trained))
    if isinstance(traffic, OneScenario) and options.network is not None:
        path, scenario = options.network.resolve(), traffic.scenario
        counts, times = scenario.counts, scenario.times
        tqdm.write(SERVE.format(output=output.resolve(), network=path, counts=counts, times=times))


def settings_of(options: argparse.Namespace) -> tuple[Config, int, str]:
    """Return MAPPO's settings, the rounds of imitation, and the start."""
    config, rounds, rule = Config(), 0, "greedy"
    is_shipped = options.network is None and options.resco is None
    if is_shipped and options.safety:
        config, rounds, rule = SAFE_POLICY, SAFE_ROUNDS, str(SHIPPED_POLICY)
    elif is_shipped:
        config = POLICY
    given = {
        each.name: getattr(options, each.name)
        for each in fields(Config)
        if getattr(options, each.name, None) is not None
    }
    if not is_shipped:
        given.setdefault("repeats", given.get("episodes", config.episodes))
    if options.imitation_rounds is not None:
        rounds = options.imitation_rounds
    return replace(config, **given), rounds, options.start or rule


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
        read_state_dict(path, network_of(file))
    except InvalidPolicyFileError as error:
        raise InvalidCheckpointError(
            f"{path.parent} holds a run of another city; name another folder ({error})"
        ) from error


def write_start(file: NetworkFile, seed: int, path: Path, rule: str = "greedy") -> None:
    """Write what a run begins with.

    A network with more phases than fit starts from random weights.

    Args:
        rule: greedy, clearing, or policies' files: then the mean of their weights.

    Raises:
        InvalidPolicyFileError: the file is not a policy of this network.
    """
    network = network_of(file)
    torch.manual_seed(seed)
    policy = RecurrentPolicy(PolicyForm.of(network))
    initialise(policy, policy.fc2, output_gain=0.01)
    if rule not in RULES:
        policy.load_state_dict(mean_weights(rule.split(","), network))
    elif fits(file):
        make_greedy(policy, file, clearing=rule == "clearing")
    else:
        tqdm.write("The city has more phases than a policy has units for: no start from greedy.")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(OrderedDict(policy.state_dict()), path)


if __name__ == "__main__":
    main()
