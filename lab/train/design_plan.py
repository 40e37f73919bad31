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
from itertools import pairwise

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
BUSIEST = {
    begin_h * HOUR_S: max(
        range(begin_h * HOUR_S, end_h * HOUR_S + 1, 900),
        key=lambda second: DEMAND.course.at(second)[0],
    )
    for begin_h, end_h in pairwise(BOUNDARIES_H)
}
"""By the begin of a period, the time in it at which the demand is greatest."""

Timings = dict[str, Timing]


def webster_timings(
    second: int, lost_s: float = LOST_S, fewest_decisions: int = FEWEST_DECISIONS
) -> Timings:
    """Return every junction's own best cycle and splits at a time of day, without offsets."""
    times = phase_times(DEMAND, SHIPPED.ids, second, DECISION_S, lost_s, fewest_decisions)
    return {each: Timing(offset_s=0, phases_s=phases_s) for each, phases_s in times.items()}


def search_offsets(timings: Timings, begin_s: int, pool: Executor) -> Timings:
    """Return the timings with the offsets that lose the least time in half an hour."""
    best = _losses_s([timings], begin_s, pool)[0]
    for junction_id in SHIPPED.ids[1:]:
        cycle_s = sum(timings[junction_id].phases_s)
        candidates = [
            timings | {junction_id: _with_offset(timings[junction_id], offset_s)}
            for offset_s in range(0, cycle_s, DECISION_S)
        ]
        losses_s = _losses_s(candidates, begin_s, pool)
        least = int(np.argmin(losses_s))
        if losses_s[least] < best - WORTH_S:
            best, timings = losses_s[least], candidates[least]
    return timings


def _with_offset(timing: Timing, offset_s: int) -> Timing:
    return timing.model_copy(update={"offset_s": offset_s})


def _losses_s(candidates: Sequence[Timings], begin_s: int, pool: Executor) -> list[float]:
    """Simulate half an hour under each; return the time lost per vehicle, mean of the seeds."""
    tried = [(timings, begin_s, seed) for timings in candidates for seed in PLAN_SEEDS]
    losses_s = np.array(list(pool.map(_time_loss_s, tried))).reshape(len(candidates), -1)
    return [float(loss) for loss in losses_s.mean(axis=1)]


def _time_loss_s(tried: tuple[Timings, int, int]) -> float:
    timings, begin_s, seed = tried
    plan = ClockPlan(name="tried", periods=(Period(begin="00:00", junctions=timings),))
    scenario = shipped_scenario(shipped_demand(begin_s, SEARCHED_S))
    return run(scenario, seed, lambda _: PlanByClock(plan, begin_s, DECISION_S)).delay_s


def periods_of(timings: dict[int, Timings]) -> tuple[Period, ...]:
    """Return the periods of timings by the second at which they begin."""
    return tuple(
        Period(begin=f"{begin_s // HOUR_S:02d}:00", junctions=each)
        for begin_s, each in timings.items()
    )


def design_plan() -> ClockPlan:
    plain = {begin_s: webster_timings(second) for begin_s, second in BUSIEST.items()}
    with make_pool(os.cpu_count() or 1) as pool:
        morning, evening = (
            search_offsets(plain[begin_s], BUSIEST[begin_s] - SEARCHED_S // 2, pool)
            for begin_s in tqdm([hour * HOUR_S for hour in RUSHES_H], unit="rush")
        )
    coordinated = {}
    for begin_s, timings in plain.items():
        like = morning if DEMAND.course.at(BUSIEST[begin_s])[1] < 0.5 else evening
        coordinated[begin_s] = {
            name: _with_offset(each, like[name].offset_s % sum(each.phases_s))
            for name, each in timings.items()
        }
    return ClockPlan(name="weekday", periods=periods_of(coordinated))


def design_safe_plan() -> ClockPlan:
    """Return the plan for behind the safety layer."""
    times = SAFE_LOST_S, SAFE_DECISIONS
    timings = {begin_s: webster_timings(second, *times) for begin_s, second in BUSIEST.items()}
    return ClockPlan(name="weekday, safe", periods=periods_of(timings))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--safe", action="store_true", help="for behind the safety layer")
    is_safe = parser.parse_args().safe
    plan = design_safe_plan() if is_safe else design_plan()
    with atomic_write(SAFE_PLAN if is_safe else SHIPPED_PLAN) as file:
        file.write(plan_as_json(plan).encode())


if __name__ == "__main__":
    main()
