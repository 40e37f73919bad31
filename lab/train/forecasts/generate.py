"""Simulate the calendar, one file per day, then join them (an hour on two cores).

Each day is simulated under fixed-time signals and measured minute by minute. Days that are there
already are kept, so it can be interrupted at any time.
"""

from __future__ import annotations

import argparse
import os
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path

import numpy as np
from tqdm import tqdm

from lab.net.net import load_net
from lab.processes import RunFolder, make_pool
from lab.sim.controllers import run
from lab.sim.daily_demand import DAY_S
from lab.sim.fixed_time import FixedTime
from lab.sim.shipped import shipped_demand, shipped_scenario
from lab.train.forecasts.dataset import (
    DATA_FILE,
    MINUTES,
    SLOT_MINUTES,
    Calendar,
    Measurements,
    join_days,
)
from lab.train.forecasts.days import Day, draw_day
from models.networks.shipped import NET_FILE, SHIPPED

DAYS_FOLDER = Path(__file__).parents[3] / ".data" / "days"
N_DAYS = 84  # twelve weeks


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--days", type=int, default=N_DAYS, help="length of the calendar")
    parser.add_argument("--folder", type=Path, default=DAYS_FOLDER)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--output", type=Path, default=DATA_FILE, help="all days in one file")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    generate(options.folder, options.days, options.workers)
    days = [Measurements.load(day_file(options.folder, number)) for number in range(options.days)]
    Calendar(tuple(load_net(NET_FILE).edges), SHIPPED.ids, join_days(days)).save(options.output)


def generate(folder: Path, n_days: int, workers: int) -> None:
    """Simulate the days that have no file yet."""
    missing = [number for number in range(n_days) if not day_file(folder, number).exists()]
    with make_pool(workers) as pool:
        running = [pool.submit(_simulate_to_file, folder, number) for number in missing]
        done = tqdm(as_completed(running), total=n_days, initial=n_days - len(missing), unit="day")
        for future in done:
            future.result()


def day_file(folder: Path, number: int) -> Path:
    return folder / f"day-{number:03d}.npz"


def _simulate_to_file(folder: Path, number: int) -> None:
    simulate_day(draw_day(number)).save(day_file(folder, number))


def simulate_day(day: Day) -> Measurements:
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


def _measure(output: Path) -> Measurements:
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
    return Measurements(
        density=density.round(2).astype(np.float32),
        vehicle_count=(left @ incoming.T).round().astype(np.int16),
        avg_speed=np.where(there > 0, mean_speed, 3.6 * speed_limit).round(1).astype(np.float32),
        occupancy=(occupancy / 100 @ lane_metres.T / lane_metres.sum(1))
        .round(4)
        .astype(np.float32),
    )


if __name__ == "__main__":
    main()
