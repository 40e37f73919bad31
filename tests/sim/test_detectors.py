from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import defaultdict

import pytest

from models.simulation.detectors import Detectors
from models.simulation.environment import Scenario, TrafficEnvironment
from models.simulation.fixed_time import FixedTime
from models.simulation.road_network import read_network

MINUTES = 10


def test_counts_speeds_and_occupancies_are_those_that_sumo_measures(tmp_path):
    network, output = read_network(), tmp_path / "minutes.xml"
    element = f'<edgeData id="minutes" period="60" file="{output}" excludeEmpty="true"/>'
    scenario = Scenario(duration_s=60 * MINUTES, sumo_elements=(element,))
    controller, detectors = FixedTime(network, scenario), Detectors(network)
    seen = defaultdict(list)
    with TrafficEnvironment(scenario, network) as environment:
        observations = environment.reset(seed=1)
        for step in range(scenario.n_decisions):
            observations = environment.step(controller.act(observations))
            detectors.look()
            if step % 12 == 11:
                for junction_id, minute in detectors.minute().items():
                    seen[junction_id].append(minute)
    edges = [
        {edge.attrib["id"]: edge.attrib for edge in interval.iterfind("edge")}
        for interval in ET.parse(output).getroot().iterfind("interval")
    ]
    for junction_id, minutes in seen.items():
        incoming = {lane.edge for lane in network.junctions[junction_id].lanes}
        measured = [[each[edge] for edge in incoming if edge in each] for each in edges]
        left = sum(int(edge["left"]) for minute in measured for edge in minute)
        assert sum(minute.vehicle_count for minute in minutes) == pytest.approx(left, abs=2)
        seconds = [float(edge["sampledSeconds"]) for minute in measured for edge in minute]
        speeds = [float(edge["speed"]) for minute in measured for edge in minute]
        mean = 3.6 * sum(a * b for a, b in zip(seconds, speeds, strict=True)) / sum(seconds)
        means = [minute.avg_speed for minute in minutes]
        assert sum(means) / len(means) == pytest.approx(mean, rel=0.25)
        metres = sum(lane.length_m for lane in network.junctions[junction_id].lanes)
        occupied = 5 * sum(seconds) / (60 * MINUTES * metres)
        told = sum(minute.occupancy for minute in minutes) / MINUTES
        assert told == pytest.approx(occupied, rel=0.15)
