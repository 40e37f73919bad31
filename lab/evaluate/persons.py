"""The shipped policy behind the safety layer where people cross: what vehicles and people lose.

``python -m lab.evaluate.persons`` drives the shipped network, and the one with crossings
without and with pedestrians, and prints a table; ``--build`` first builds net and network file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tqdm import tqdm

from lab.evaluate.cases import GUARDED_PLAN, GUARDED_POLICY, PEERS, TEST_SEEDS
from lab.evaluate.statistics import Estimate, estimate
from lab.sim.controllers import GUARDED, Control, open_run, policy_control
from lab.sim.crossings import (
    MAX_WALK_WAIT_S,
    NETWORK_FILE,
    build_net,
    crossings_scenario,
    network_with_crossings,
)
from lab.sim.daily_demand import HOUR_S, DailyDemand
from lab.sim.environment import Change
from lab.sim.metrics import Metrics
from lab.sim.scenario import Scenario
from lab.sim.shipped import MORNING_RUSH_S, shipped_demand, shipped_scenario
from models.atomic_write import atomic_write
from models.networks.file import network_as_json
from models.policy.form import SHIPPED_POLICY

HOURS = {"medium, 12:00": 12 * HOUR_S, "rush hour, 7:30": MORNING_RUSH_S}
BARE, UNUSED, WALKED = "no crossings", "crossings, no pedestrians", "crossings and pedestrians"
GUARDED_ACTUATED = f"actuated{GUARDED}"
SCENARIOS: Mapping[str, Callable[[DailyDemand], Scenario]] = {
    BARE: lambda demand: replace(shipped_scenario(demand), guarded=True),
    UNUSED: lambda demand: crossings_scenario(demand, walkers_per_hour=0),
    WALKED: crossings_scenario,
}
CASES = (
    *((network, GUARDED_POLICY) for network in SCENARIOS),
    (WALKED, GUARDED_PLAN),
    (WALKED, GUARDED_ACTUATED),
)


class Crossed(NamedTuple):
    """One run.

    Attributes:
        wait_s: the longest that a person stood at one crossing, as read at each decision.
        red_s: the longest time that a crossing was red; 0 where SUMO runs the programs.
    """

    metrics: Metrics
    wait_s: float
    red_s: int


def cross(scenario: Scenario, seed: int, control: Control) -> Crossed:
    """Simulate a run, and follow who waits at the crossings."""
    wait_s = 0.0
    with open_run(scenario, seed, control) as (environment, controller, observations):
        while not environment.is_over:
            observations = environment.step(controller.act(observations))
            waiting = environment.waiting_pedestrians().values()
            wait_s = max([wait_s, *(seconds for each in waiting for seconds in each)])
        red_s = max(longest_reds(scenario, environment.changes), default=0)
        return Crossed(environment.metrics(), wait_s, red_s)


def longest_reds(scenario: Scenario, changes: Sequence[Change]) -> Iterator[int]:
    """Yield for how many seconds each crossing was red at most."""
    for junction in scenario.network.junctions:
        shown = [each for each in changes if each.signal == junction.id]
        for place, link in junction.placed_links:
            if link.crossing is None or not shown:
                continue
            green_s, longest_s, red = scenario.begin_s, 0, True
            for change in (*shown, Change(scenario.end_s, junction.id, "G" * len(shown[0].state))):
                walks = change.state[place] in "Gg"
                if walks and red:
                    longest_s = max(longest_s, change.time_s - green_s)
                elif not walks and not red:
                    green_s = change.time_s
                red = not walks
            yield longest_s


def evaluate(begins_s: Mapping[str, int], seeds: Sequence[int], duration_s: int) -> Iterator[str]:
    """Simulate, and yield the lines of a table in Markdown: means over the seeds."""
    yield (
        "| | | delay of vehicles, s | against no crossings | pedestrians | their delay, s"
        " | 95th percentile | longest | longest wait at a crossing | longest red of a crossing |"
    )
    yield f"|---|---|{'---:|' * 8}"
    total = len(begins_s) * len(CASES) * len(seeds)
    with tqdm(total=total, unit="run") as progress:
        for level, begin_s in begins_s.items():
            demand = shipped_demand(begin_s, duration_s)
            bare: list[float] = []
            for network, controller in CASES:
                scenario, runs = SCENARIOS[network](demand), []
                for seed in seeds:
                    runs.append(cross(scenario, seed, _control(scenario, controller, seed)))
                    progress.update()
                delays = [run.metrics.time_loss_s for run in runs]
                bare = bare or delays
                more = estimate(
                    [100 * (own / of - 1) for own, of in zip(delays, bare, strict=True)]
                )
                yield _row((level, f"{controller}, {network}"), estimate(delays), more, runs)


def _control(scenario: Scenario, controller: str, seed: int) -> Control:
    if controller == GUARDED_POLICY:
        return policy_control(scenario, SHIPPED_POLICY)
    return PEERS[controller](scenario, seed)


def _row(heads: Sequence[str], delay: Estimate, more: Estimate, runs: Sequence[Crossed]) -> str:
    walks = [run.metrics.walks for run in runs]
    cells = [*heads, delay.text(), f"{more.text()} %"]
    if any(each.number for each in walks):
        cells += [
            f"{estimate([each.number for each in walks]).mean:.0f}",
            *(
                estimate([getattr(each, name) for each in walks]).text()
                for name in ("mean_s", "percentile_95_s")
            ),
            *(
                f"{max(seconds):.0f}"
                for seconds in (
                    [each.longest_s for each in walks],
                    [run.wait_s for run in runs],
                )
            ),
        ]
        red_s = max(run.red_s for run in runs)
        cells.append(str(red_s) if red_s else "")
    else:
        cells += [""] * 6
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--build", action="store_true", help="build net and network file first")
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 1 on (default 5)")
    options = parser.parse_args()
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds} is less than 1")
    if options.build:
        build_net()
        with atomic_write(NETWORK_FILE) as file:
            file.write(network_as_json(network_with_crossings()).encode())
    seeds = range(TEST_SEEDS.start, TEST_SEEDS.start + options.seeds)
    lines = list(evaluate(HOURS, seeds, HOUR_S))
    sys.stdout.write("\n".join([*lines, ""]))
    sys.stdout.write(
        f"No phase with crossings may be red for longer than {MAX_WALK_WAIT_S:.0f} s.\n"
    )


if __name__ == "__main__":
    main()
