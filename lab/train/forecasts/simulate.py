"""Simulate one day under fixed-time signals and measure it minute by minute."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lab.net.net import load_net
from lab.sim.controllers import run
from lab.sim.daily_demand import DAY_S
from lab.sim.fixed_time import FixedTime
from lab.sim.shipped import shipped_demand, shipped_scenario
from lab.train.forecasts.days import Day
from models.atomic_write import atomic_write
from models.networks.shipped import NET_FILE, SHIPPED

MINUTES = 24 * 60
SLOT_MINUTES = 5


@dataclass(frozen=True)
class Measurements:
    """What detectors would have measured on a stretch of days.

    Attributes:
        density: (slots, edges) mean vehicles per kilometre of edge, all lanes together, in slots of
            five minutes; an hour's density is the mean of its twelve.
        vehicle_count: (minutes, junctions) vehicles that crossed the stop lines of the junction's
            incoming lanes in the minute.
        avg_speed: (minutes, junctions) km/h, mean over the time that vehicles spent on the
            incoming edges in the minute; the speed limit when there was none.
        occupancy: (minutes, junctions) share of the incoming lanes' length under vehicles, mean.
    """

    density: NDArray[np.float32]
    vehicle_count: NDArray[np.int16]
    avg_speed: NDArray[np.float32]
    occupancy: NDArray[np.float32]

    def save(self, path: Path) -> None:
        """Write all or nothing."""
        with atomic_write(path) as file:
            np.savez_compressed(file, **asdict(self))

    @classmethod
    def load(cls, path: Path) -> Self:
        with np.load(path) as arrays:
            return cls(**arrays)


def simulate_day(day: Day) -> Measurements:
    """Run SUMO through a day; takes about 20 s of one core."""
    with TemporaryDirectory(prefix="greenwave-day-") as folder:
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
