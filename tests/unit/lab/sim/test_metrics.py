"""Everyone who wanted to drive counts: arrived, still under way, and never let in."""

import pytest

from lab.sim.metrics import sum_up
from lab.sim.trips import read_trips

TRIPS = """<tripinfos>
<tripinfo id="0" depart="10.00" departDelay="2.00" arrival="110.00" duration="100.00"
    waitingTime="20.00" timeLoss="30.00"/>
<tripinfo id="1" depart="50.00" departDelay="0.00" arrival="-1.00" duration="60.00"
    waitingTime="10.00" timeLoss="15.00"/>
<tripinfo id="2" depart="-1" departDelay="90.00" arrival="-1.00" duration="0.00"
    waitingTime="0.00" timeLoss="0.00"/>
</tripinfos>
"""


def test_depart_delay_and_unfinished_trips_count(tmp_path):
    path = tmp_path / "trips.xml"
    path.write_text(TRIPS)
    metrics = sum_up(read_trips(path), {"300839359": 1.5})
    assert metrics.waiting_s == pytest.approx((22 + 10 + 90) / 3)
    assert metrics.trip_s == pytest.approx((102 + 60 + 90) / 3)
    assert metrics.delay_s == pytest.approx((32 + 15 + 90) / 3)
    assert (metrics.demanded, metrics.arrived) == (3, 1)
    assert metrics.queues == {"300839359": 1.5}
    as_resco = metrics.resco_waiting_s, metrics.resco_trip_s, metrics.resco_delay_s
    assert as_resco == ((20 + 10) / 2, (100 + 60) / 2, (32 + 15) / 2)
    assert metrics.departed == 2


def test_each_class_of_vehicles_has_its_number_and_mean_loss(tmp_path):
    path = tmp_path / "trips.xml"
    typed = TRIPS.replace('id="2"', 'id="2" vType="line 5"').replace('id="', 'vType="car" id="')
    path.write_text(typed.replace('vType="car" id="2" vType', 'id="2" vType'))
    metrics = sum_up(read_trips(path), {}, classes={"car": "passenger"})
    assert metrics.classes == {"line 5": (1, 90.0), "passenger": (2, pytest.approx(47 / 2))}


def test_incidents_are_read_from_the_statistic_file(tmp_path):
    trips, path = tmp_path / "trips.xml", tmp_path / "statistics.xml"
    trips.write_text(TRIPS)
    safety = '<safety collisions="3" emergencyStops="1" emergencyBraking="7"/>'
    others = '<vehicles inserted="2" waiting="1"/><teleports total="2" jam="0"/>'
    path.write_text(f"<statistics>{others}{safety}</statistics>")
    counted = sum_up(read_trips(trips), {}, path)
    assert (counted.collisions, counted.teleports, counted.emergency_braking) == (3, 2, 7)


def test_no_trips_give_zeros(tmp_path):
    path = tmp_path / "trips.xml"
    path.write_text("<tripinfos></tripinfos>")
    metrics = sum_up(read_trips(path), {})
    assert (metrics.waiting_s, metrics.demanded, metrics.arrived) == (0, 0, 0)
    assert (metrics.resco_waiting_s, metrics.resco_trip_s, metrics.resco_delay_s) == (0, 0, 0)


def test_as_resco_counts_a_vehicle_that_never_departed_counts_only_after_the_last_departure(
    tmp_path,
):
    path = tmp_path / "trips.xml"  # the last departure, at 50 s, was planned 60 s before the end
    path.write_text(TRIPS.replace('departDelay="90.00"', 'departDelay="45.00"'))
    assert sum_up(read_trips(path), {}).resco_delay_s == pytest.approx((32 + 15 + 45) / 3)
