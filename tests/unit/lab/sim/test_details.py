"""Waits are counted by approach, with those who wait to enter; emissions and demand add up."""

from collections import defaultdict
from pathlib import Path

import pytest

from lab.net.net import SumoLane, SumoNet
from lab.sim.details import Queues, slot_of, with_details
from lab.sim.metrics import Metrics
from lab.sim.trips import read_trips
from tests.cities import crossing

NETWORK = crossing(
    ("Gr", "rG"),
    {"main_0": 20, "stub_0": {"capacity": 1, "behind": [{"lane": "side_0"}]}},
    (("main_0", "out_0"), ("stub_0", "out_0")),
)
TRIPS = """<tripinfos>
<tripinfo depart="12" departDelay="2" arrival="90" waitingTime="20" waitingCount="1"
    routeLength="200"><emissions CO2_abs="3e6" NOx_abs="2e3" fuel_abs="1e6"/></tripinfo>
<tripinfo depart="70" departDelay="0" arrival="-1" waitingTime="4" waitingCount="2"
    routeLength="100"><emissions CO2_abs="1e6" NOx_abs="1e3" fuel_abs="5e5"/></tripinfo>
<tripinfo depart="-1" departDelay="30" arrival="-1" waitingTime="0" waitingCount="0"
    routeLength="0"/>
</tripinfos>"""
ROUTES = """<routes>
<vehicle id="a" depart="10" speedFactor="1"><route edges="main out" exitTimes="50 90"/></vehicle>
<vehicle id="b" depart="70" speedFactor="2"><routeDistribution>
    <route edges="gone out" exitTimes=""/>
    <route edges="side stub out" exitTimes="90 95 -1"/></routeDistribution></vehicle>
</routes>"""


@pytest.fixture
def details(tmp_path: Path):
    (tmp_path / "trips.xml").write_text(TRIPS)
    (tmp_path / "routes.xml").write_text(ROUTES)
    net = SumoNet()
    for road, length_m in (("main", 100.0), ("side", 100.0), ("stub", 10.0), ("out", 100.0)):
        net.edges[road] = "", ""
        net.lanes[f"{road}_0"] = SumoLane(f"{road}_0", road, length_m, (), 10.0)
    queues = Queues(NETWORK)
    queues.count(defaultdict(int, {"main_0": 4}).__getitem__)
    queues.count(defaultdict(int, {"main_0": 1, "side_0": 2}).__getitem__)
    assert queues.of_junctions == {"a": 3.5}
    read = read_trips(tmp_path / "trips.xml").values, tmp_path / "routes.xml"
    pending = [("main", 30.0), ("out", 5.0)]
    return with_details(Metrics(0, 0, 0, 3, 1), *read, pending, net, NETWORK, queues, (0, 120))


def test_a_wait_is_what_a_road_takes_beyond_driving_freely(details):
    main = details.approaches["main"]
    assert (main.vehicles, main.queue, main.longest_queue) == (2, 2.5, 4)
    assert main.wait_s == (30 + 30) / 2  # one took 40 s for 10, one waits to enter
    assert main.longest_wait_s == 30


def test_a_wait_behind_a_stub_belongs_to_its_approach(details):
    stub = details.approaches["stub"]
    assert details.approaches.keys() == {"main", "stub"}
    assert (stub.vehicles, stub.longest_queue) == (1, 2)
    assert stub.wait_s == (20 - 5) + (5 - 0.5)


def test_emissions_stops_and_longest_waits_are_of_all_vehicles(details):
    assert (details.co2_kg, details.nox_g, details.fuel_kg) == (4.0, 3.0, 1.5)
    assert details.driven_km == pytest.approx(0.3)
    assert details.stops == 1
    assert details.longest_waiting_s == 30
    assert details.waiting_95_s == pytest.approx(29.2)


def test_demand_counts_planned_departures_by_slot(details):
    assert slot_of(0, 120) == 60
    assert details.departures == (1, 2)
    assert slot_of(0, 3600) == 300
    assert slot_of(0, 48 * 3600) == 7200
