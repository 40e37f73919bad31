"""Simulate the calendar, one file per day, then join them (an hour on two cores).

What kind of day each is, is drawn from its number alone. It is simulated under fixed-time signals
and measured minute by minute. Days that are there already are kept, so it can be interrupted at any
time.
"""

from __future__ import annotations

import argparse
import os
import xml.etree.ElementTree as ET
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from lab.net.net import load_net
from lab.processes import RunFolder, make_pool
from lab.sim.controllers import run
from lab.sim.daily_demand import DAY_S, HOUR_S, DayProfile, read_demand
from lab.sim.shipped import Breakdown, draw_shipped_breakdown, shipped_demand, shipped_scenario
from lab.sim.webster import FixedTime
from lab.train.forecasts.dataset import (
    DATA_FILE,
    DAYS_PER_WEEK,
    MINUTES,
    SLOT_MINUTES,
    Calendar,
    join_days,
)
from models.networks.shipped import DEMAND_FILE, NET_FILE, SHIPPED

DAYS_FOLDER = Path(__file__).parents[3] / ".data" / "days"
N_DAYS = 84  # twelve weeks
CALENDAR_SEED = 2026

# fmt: off
WEEKEND = DayProfile(
    level=(0.18, 0.14, 0.10, 0.06, 0.05, 0.06, 0.10, 0.18, 0.30, 0.46, 0.60, 0.68,
           0.72, 0.70, 0.66, 0.66, 0.68, 0.66, 0.60, 0.50, 0.40, 0.34, 0.28, 0.22),
    evening_share=(0.6, 0.6, 0.6, 0.5, 0.5, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4,
                   0.5, 0.5, 0.5, 0.6, 0.6, 0.6, 0.7, 0.7, 0.7, 0.7, 0.7, 0.6),
)
# fmt: on

# What no day shares with the one before. The mean is below 1 because at full demand the center is
# at capacity, and a jam that lasts all day teaches nothing.
DAY_LEVEL = (0.94, 0.06)  # mean and spread of a factor on the whole day
HOUR_LEVEL_SPREAD = 0.05  # of a factor on each hour
SHIFT_H = 0.4  # rush hours come up to this much earlier or later
BREAKDOWNS_PER_DAY = 0.7


@dataclass(frozen=True)
class Day:
    """One day of the calendar; day 0 is a Monday."""

    number: int
    expected: DayProfile  # what the signals' plans are made for
    profile: DayProfile  # what comes
    breakdowns: tuple[Breakdown, ...]

    @property
    def seed(self) -> int:
        return 1_000_000 + self.number


def is_weekend(number: int) -> bool:
    return number % DAYS_PER_WEEK >= 5


def draw_day(number: int) -> Day:
    """Return the day of this number, the same on every call."""
    rng = np.random.default_rng((CALENDAR_SEED, number))
    expected = WEEKEND if is_weekend(number) else read_demand(DEMAND_FILE).profile
    level = float(np.clip(rng.normal(*DAY_LEVEL), 0.8, 1.06))
    shift = rng.uniform(-SHIFT_H, SHIFT_H)
    hourly = level * np.exp(rng.normal(0, HOUR_LEVEL_SPREAD, 24))
    shifted = [expected.at((hour - shift) * HOUR_S) for hour in range(24)]
    profile = DayProfile(
        level=tuple(float(f * at[0]) for f, at in zip(hourly, shifted, strict=True)),
        evening_share=tuple(at[1] for at in shifted),
    )
    breakdowns = tuple(
        draw_shipped_breakdown(
            rng, depart_s=(6 * HOUR_S, 21 * HOUR_S), duration_s=(20 * 60, 75 * 60)
        )
        for _ in range(rng.poisson(BREAKDOWNS_PER_DAY))
    )
    return Day(number, expected, profile, breakdowns)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    DAYS_FOLDER.mkdir(parents=True, exist_ok=True)
    files = [DAYS_FOLDER / f"day-{number:03d}.npz" for number in range(N_DAYS)]
    missing = {number: file for number, file in enumerate(files) if not file.exists()}
    with make_pool(os.cpu_count() or 1) as pool:
        running = [pool.submit(_simulate_to_file, *each) for each in missing.items()]
        done = tqdm(as_completed(running), total=N_DAYS, initial=N_DAYS - len(missing), unit="day")
        for future in done:
            future.result()
    join_days([Calendar.load(file) for file in files]).save(DATA_FILE)


def _simulate_to_file(number: int, file: Path) -> None:
    simulate_day(draw_day(number)).save(file)


def simulate_day(day: Day) -> Calendar:
    """Run SUMO through a day; takes about 20 s of one core."""
    with RunFolder() as folder:
        output = Path(folder, "minutes.xml")
        minutes = ET.Element(
            "edgeData", id="minutes", period="60", file=str(output), excludeEmpty="true"
        )
        expected = shipped_demand(0, DAY_S, profile=day.expected)
        actual = shipped_demand(0, DAY_S, profile=day.profile)
        elements = (ET.tostring(minutes, encoding="unicode"),)
        scenario = shipped_scenario(actual, day.breakdowns, elements)
        fixed_time = FixedTime(expected, SHIPPED.ids, scenario.decision_s)
        run(scenario, day.seed, lambda environment: fixed_time)
        return _measure(output)


def _measure(output: Path) -> Calendar:
    net = load_net(NET_FILE)
    edges = list(net.edges)
    columns = {edge: column for column, edge in enumerate(edges)}
    # per minute and edge: vehicle seconds, speed in m/s, occupancy in percent, vehicles that left
    raw = np.zeros((MINUTES, len(edges), 4))
    minute = 0
    for event, element in ET.iterparse(output, events=("start", "end")):
        if event == "start" and element.tag == "interval":
            minute = int(float(element.attrib["begin"])) // 60
        elif event == "end" and element.tag == "edge" and element.attrib["id"] in columns:
            names = ("sampledSeconds", "speed", "occupancy", "left")
            values = [float(element.attrib.get(name, 0)) for name in names]
            raw[minute, columns[element.attrib["id"]]] = values
        elif event == "end" and element.tag == "interval":
            element.clear()
    seconds, speed, occupancy, left = np.moveaxis(raw, 2, 0)
    kilometres = np.array([net.edge_lanes[edge][0].length_m for edge in edges]) / 1000
    density = (seconds / 60 / kilometres).reshape(-1, SLOT_MINUTES, len(edges)).mean(axis=1)
    lane_metres = np.zeros((SHIPPED.n_agents, len(edges)))
    for junction in shipped_scenario(shipped_demand(0)).network.junctions:
        for lane in junction.lanes:
            known = net.lanes[lane.id]
            lane_metres[junction.agent_index, columns[known.edge]] += known.length_m
    incoming = (lane_metres > 0).astype(float)
    there = seconds @ incoming.T
    speed_limit = max(lane.speed_limit for edge in edges for lane in net.edge_lanes[edge])
    mean_speed = 3.6 * (speed * seconds @ incoming.T) / np.maximum(there, 1e-9)
    return Calendar(
        edges=tuple(edges),
        junctions=SHIPPED.ids,
        density=density.round(2).astype(np.float32),
        vehicle_count=(left @ incoming.T).round().astype(np.int16),
        avg_speed=np.where(there > 0, mean_speed, 3.6 * speed_limit).round(1).astype(np.float32),
        occupancy=(occupancy / 100 @ lane_metres.T / lane_metres.sum(1))
        .round(4)
        .astype(np.float32),
    )


if __name__ == "__main__":
    main()
