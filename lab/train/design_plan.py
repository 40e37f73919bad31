"""Design the gateway's fixed-time plan for this network: ``python -m lab.train.design_plan``.

Cycle and splits are Webster's for the greatest demand of each period. Neighbours whose cycles are
equal, or multiples of each other, are coordinated by their offsets: these are searched for in
simulated rush hours, one junction after the other, against the center. Other periods have the
offsets of the rush whose directions are more like theirs.

With ``--safe`` it is the plan for behind the safety layer, whose changes take longer: phases lose
more and last longer, and are not coordinated.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from tqdm import tqdm

from lab.processes import make_pool
from lab.sim.controllers import PlanByClock, run
from lab.sim.daily_demand import DAY_S, HOUR_S
from lab.sim.fixed_time import FEWEST_DECISIONS, LOST_S, phase_times
from lab.sim.shipped import DECISION_S, shipped_demand, shipped_scenario
from models.atomic_write import atomic_write
from models.networks.shipped import SHIPPED
from models.signals.clock_plan import (
    SAFE_PLAN,
    SHIPPED_PLAN,
    ClockPlan,
    Period,
    Timing,
    plan_as_json,
)

PLAN_SEEDS = range(60_000, 60_003)  # neither training nor evaluation has them
BOUNDARIES_H = (0, 5, 6, 7, 9, 15, 16, 18, 20, 24)  # between periods of like demand
RUSHES_H = (7, 16)  # periods that offsets are searched for in
SEARCHED_S = HOUR_S // 2
SAFE_LOST_S = 8.0  # of a phase behind the safety layer
SAFE_DECISIONS = 3  # the longest change, and the minimum green
WORTH_S = 0.2  # of time loss per vehicle, for which an offset is changed

DEMAND = shipped_demand(0, DAY_S)

Timings = dict[str, Timing]


def busiest_second(begin_s: int, end_s: int) -> int:
    """Return the time in a period at which the demand is greatest."""
    return max(range(begin_s, end_s + 1, 900), key=lambda second: DEMAND.course.at(second)[0])


def webster_timings(
    second: int, lost_s: float = LOST_S, fewest_decisions: int = FEWEST_DECISIONS
) -> Timings:
    """Return every junction's own best cycle and splits at a time of day, without offsets."""
    times = phase_times(DEMAND, SHIPPED.ids, second, DECISION_S, lost_s, fewest_decisions)
    return {each: Timing(offset_s=0, phases_s=phases_s) for each, phases_s in times.items()}


def time_loss_s(timings: Timings, begin_s: int, seed: int) -> float:
    """Simulate half an hour under one period's timings."""
    plan = ClockPlan(name="tried", periods=(Period(begin="00:00", junctions=timings),))
    scenario = shipped_scenario(shipped_demand(begin_s, SEARCHED_S))
    return run(scenario, seed, lambda _: PlanByClock(plan, begin_s, DECISION_S)).time_loss_s


def search_offsets(timings: Timings, begin_s: int, pool: Executor) -> Timings:
    """Return the timings with the offsets that lose the least time in half an hour."""
    best = _losses_s([timings], begin_s, pool)[0]
    for junction_id in SHIPPED.ids[1:]:
        cycle_s = sum(timings[junction_id].phases_s)
        candidates = [
            timings | {junction_id: timings[junction_id].model_copy(update={"offset_s": offset_s})}
            for offset_s in range(0, cycle_s, DECISION_S)
        ]
        losses_s = _losses_s(candidates, begin_s, pool)
        least = int(np.argmin(losses_s))
        if losses_s[least] < best - WORTH_S:
            best, timings = losses_s[least], candidates[least]
    return timings


def _losses_s(candidates: Sequence[Timings], begin_s: int, pool: Executor) -> list[float]:
    seeds = list(PLAN_SEEDS)
    tried = [(timings, seed) for timings in candidates for seed in seeds]
    simulate = partial(_simulate, begin_s=begin_s)
    losses_s = np.array(list(pool.map(simulate, tried))).reshape(len(candidates), len(seeds))
    return [float(loss) for loss in losses_s.mean(axis=1)]


def _simulate(tried: tuple[Timings, int], begin_s: int) -> float:
    timings, seed = tried
    return time_loss_s(timings, begin_s, seed)


def design_plan(workers: int) -> ClockPlan:
    bounds = [(begin * HOUR_S, end * HOUR_S) for begin, end in pairwise(BOUNDARIES_H)]
    busiest = {begin: busiest_second(begin, end) for begin, end in bounds}
    plain = {begin: webster_timings(second) for begin, second in busiest.items()}
    with make_pool(workers) as pool:
        morning, evening = (
            search_offsets(plain[begin], busiest[begin] - SEARCHED_S // 2, pool)
            for begin in tqdm([hour * HOUR_S for hour in RUSHES_H], unit="rush")
        )
    periods = []
    for begin_s, timings in plain.items():
        like = morning if DEMAND.course.at(busiest[begin_s])[1] < 0.5 else evening
        coordinated = {
            junction_id: timing.model_copy(
                update={"offset_s": like[junction_id].offset_s % sum(timing.phases_s)}
            )
            for junction_id, timing in timings.items()
        }
        periods.append(Period(begin=f"{begin_s // HOUR_S:02d}:00", junctions=coordinated))
    return ClockPlan(name="weekday", periods=tuple(periods))


def design_safe_plan() -> ClockPlan:
    """Return the plan for behind the safety layer."""
    periods = []
    for begin_h, end_h in pairwise(BOUNDARIES_H):
        second = busiest_second(begin_h * HOUR_S, end_h * HOUR_S)
        timings = webster_timings(second, SAFE_LOST_S, SAFE_DECISIONS)
        periods.append(Period(begin=f"{begin_h:02d}:00", junctions=timings))
    return ClockPlan(name="weekday, safe", periods=tuple(periods))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--safe", action="store_true", help="for behind the safety layer")
    parser.add_argument("--output", type=Path, help="default: the shipped one")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    plan = design_safe_plan() if arguments.safe else design_plan(arguments.workers)
    shipped = SAFE_PLAN if arguments.safe else SHIPPED_PLAN
    with atomic_write(arguments.output or shipped) as file:
        file.write(plan_as_json(plan).encode())


if __name__ == "__main__":
    main()
