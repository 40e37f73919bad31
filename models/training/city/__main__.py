"""Train a policy for a city: ``python -m models.training.city --network city.json ...``.

It begins with what greedy does, and goes on from there with MAPPO. The same command goes on where
it was killed. Seeds are far from those that evaluations have, 1 and onwards.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import OrderedDict
from pathlib import Path

import torch
from tqdm import tqdm

from models.networks.file import InvalidNetworkError
from models.networks.network import network_of
from models.policy.form import InvalidPolicyFileError, PolicyForm
from models.policy.network import RecurrentPolicy, read_state_dict
from models.simulation.city.options import add_scenario, scenario_of
from models.simulation.city.scenario import CityScenario, InvalidScenarioError
from models.training.checkpoint import InvalidCheckpointError, write_atomically
from models.training.city.greedy import fits, make_greedy
from models.training.city.problem import CityProblem
from models.training.comparison.checks import check_routes, check_signals
from models.training.mappo.config import Config
from models.training.mappo.networks import initialise, mean_weights
from models.training.mappo.run import train

RULES = "greedy", "clearing"
LEFT = """{output}/best.th      the policy: {delay:.1f} s of delay per vehicle on validation seeds
{output}/last.th      what the last iteration left
{output}/start.th     the policy that it began with
{output}/log.csv      a row per iteration
{output}/checkpoint.pt what the same command goes on from
Serve it with these arguments of the inference service; the gateway needs the network, too. Send it
the same counts: {counts}.
  network: {network}
  agent_path: {output}/best.th"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m models.training.city", description=(__doc__ or "").split("\n\n")[1]
    )
    add_scenario(parser)
    parser.add_argument("--output", type=Path, required=True, help="folder of the run")
    parser.add_argument("--seed", type=int, default=0, help="of everything that is drawn")
    parser.add_argument("--iterations", type=int, default=24, help="of MAPPO")
    parser.add_argument("--episodes", type=int, default=8, help="per iteration")
    parser.add_argument("--repeats", type=int, help="episodes with the same seed (default: all)")
    parser.add_argument(
        "--start",
        default="greedy",
        help="of a run that has not begun: greedy; clearing, which is greedy that clears short"
        " lanes between signals first; or a policy's file, such as best.th of another run; or"
        " several, separated by commas: then the mean of their weights (default: greedy)",
    )
    parser.add_argument("--reward", default="time_loss", help="time_loss or waiting_change")
    parser.add_argument("--team-share", type=float, default=0.4, help="of others' rewards")
    parser.add_argument("--gamma", type=float, default=0.97, help="discount per decision")
    parser.add_argument("--actor-rate", type=float, default=5e-4, help="Adam's step size")
    parser.add_argument("--entropy-bonus", type=float, default=0.002, help="for alternatives")
    parser.add_argument("--validate-every", type=int, default=4, help="iterations")
    parser.add_argument("--validation-seeds", type=int, default=6, help="hours of a validation")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args()
    if options.seed < 0 or options.workers < 1 or options.validation_seeds < 1:
        parser.error("--seed is not negative, --workers and --validation-seeds are at least 1")
    try:
        run(scenario_of(options), options)
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
    except KeyboardInterrupt:
        tqdm.write("Stopped; the same command goes on from the last iteration that ended.")
        sys.exit(130)


def run(scenario: CityScenario, options: argparse.Namespace) -> None:
    """Do what the output folder lacks."""
    torch.set_num_threads(1)
    output: Path = options.output
    start = output / "start.th"
    config = Config(
        seed=options.seed,
        iterations=options.iterations,
        episodes=options.episodes,
        repeats=options.episodes if options.repeats is None else options.repeats,
        warm_start=str(start),
        reward=options.reward,
        team_share=options.team_share,
        gamma=options.gamma,
        actor_rate=options.actor_rate,
        entropy_bonus=options.entropy_bonus,
        validate_every=options.validate_every,
        critic_iterations=1,
        rate_factor=1.5,  # how long steps may be differs by city
        average_decay=0.0,  # in so short a run a mean lags behind: by 1.3 s on cologne1
    )
    if start.exists():
        check_start(scenario, start)
    else:
        check_signals(scenario)
        check_routes(scenario)
        write_start(scenario, options.seed, start, options.start)
    problem = CityProblem(scenario, options.validation_seeds)
    delay_s = train(config, output, options.workers, problem, threads=1)
    told = {"network": options.network.resolve(), "counts": scenario.counts}
    tqdm.write(LEFT.format(output=output.resolve(), delay=delay_s, **told))


def check_start(scenario: CityScenario, path: Path) -> None:
    """Raise InvalidCheckpointError where a run of another city has begun."""
    try:
        read_state_dict(path, network_of(scenario.network))
    except InvalidPolicyFileError as error:
        raise InvalidCheckpointError(
            f"{path.parent} holds a run of another city; name another folder ({error})"
        ) from error


def write_start(scenario: CityScenario, seed: int, path: Path, rule: str = "greedy") -> None:
    """Write what a run begins with.

    A city with more phases than fit starts from random weights.

    Args:
        rule: greedy, clearing, or policies' files: then the mean of their weights.

    Raises:
        InvalidPolicyFileError: the file is no policy of this city.
    """
    network = network_of(scenario.network)
    torch.manual_seed(seed)
    policy = RecurrentPolicy(PolicyForm.of(network))
    initialise(policy, policy.fc2, output_gain=0.01)
    if rule not in RULES:
        policy.load_state_dict(mean_weights(rule.split(","), network))
    elif fits(scenario.network):
        make_greedy(policy, scenario.network, clearing=rule == "clearing")
    else:
        tqdm.write("The city has more phases than a policy has units for: no start from greedy.")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(OrderedDict(policy.state_dict()), path)


if __name__ == "__main__":
    main()
