"""Detectors on the approaches measure what SUMO does."""

import xml.etree.ElementTree as ET
from collections import defaultdict

import pytest

from lab.net.net import load_net
from lab.sim.controllers import open_run
from lab.sim.detectors import Detectors
from lab.sim.shipped import MORNING_RUSH_S, shipped_demand, shipped_scenario
from lab.sim.webster import FixedTime
from models.networks.shipped import SHIPPED

MINUTES = 10


def test_counts_speeds_and_occupancies_are_those_that_sumo_measures(tmp_path):
    output, seen = tmp_path / "minutes.xml", defaultdict(list)
    element = f'<edgeData id="minutes" period="60" file="{output}" excludeEmpty="true"/>'
    demand = shipped_demand(MORNING_RUSH_S, 60 * MINUTES)
    scenario = shipped_scenario(demand, elements=(element,))
    fixed_time, detectors = FixedTime(demand, SHIPPED.ids, 5), Detectors(scenario)
    with open_run(scenario, 1, lambda _: fixed_time, tmp_path) as (
        environment,
        controller,
        observations,
    ):
        for step in range(scenario.n_decisions):
            observations = environment.step(controller.act(observations))
            detectors.look()
            if step % 12 == 11:
                for junction_id, minute in detectors.minute().items():
                    seen[junction_id].append(minute)
    net = load_net(scenario.net)
    lanes = {
        each.id: [net.lanes[lane.id] for lane in each.lanes] for each in scenario.network.junctions
    }
    edges = [
        {edge.attrib["id"]: edge.attrib for edge in interval.iterfind("edge")}
        for interval in ET.parse(output).getroot().iterfind("interval")
    ]
    for junction_id, minutes in seen.items():
        incoming = {lane.edge for lane in lanes[junction_id]}
        measured = [[each[edge] for edge in incoming if edge in each] for each in edges]
        left = sum(int(edge["left"]) for minute in measured for edge in minute)
        assert sum(minute.vehicle_count for minute in minutes) == pytest.approx(left, abs=2)
        seconds = [float(edge["sampledSeconds"]) for minute in measured for edge in minute]
        speeds = [float(edge["speed"]) for minute in measured for edge in minute]
        mean = 3.6 * sum(a * b for a, b in zip(seconds, speeds, strict=True)) / sum(seconds)
        means = [minute.avg_speed for minute in minutes]
        assert sum(means) / len(means) == pytest.approx(mean, rel=0.25)
        metres = sum(lane.length_m for lane in lanes[junction_id])
        occupied = 5 * sum(seconds) / (60 * MINUTES * metres)
        told = sum(minute.occupancy for minute in minutes) / MINUTES
        assert told == pytest.approx(occupied, rel=0.15)
