"""Limits of no activity are fitted by healthy hours."""

from collections import Counter

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from lab.evaluate.detectors import AIMED_HOURS, FEWEST, Hours, with_limits
from models.networks.form import DetectorLimits, NetworkFile

BUSY, IDLE = range(2)
NETWORK = NetworkFile.model_validate(
    {
        "name": "crossing",
        "junctions": [
            {
                "id": "a",
                "agent_index": 0,
                "phases": [{"state": "Gr"}, {"state": "rG"}],
                "lanes": [
                    {"id": "busy", "capacity": 20, "detector": {"stuck": 6, "no_activity": 99}},
                    {"id": "idle", "capacity": 20, "detector": {"no_activity": 99}},
                ],
                "links": [{"lane": "busy", "to": "out"}, {"lane": "idle", "to": "out"}],
            }
        ],
    }
)


def limits(hours: float, quiet: float = 10.0) -> list[DetectorLimits]:
    """Return the lanes' limits after so many hours of each of the two lanes."""
    seen = Counter({("a", BUSY): FEWEST, ("a", IDLE): FEWEST - 1})
    measured = Hours(2 * hours, quiet={("a", BUSY): quiet, ("a", IDLE): 50.0}, seen=seen)
    (junction,) = with_limits(NETWORK, measured).junctions
    return [lane.detector for lane in junction.lanes if lane.detector]


def test_the_fewer_hours_were_measured_the_more_is_added_to_the_longest_gap_in_them():
    fitted = [limits(hours)[BUSY].no_activity for hours in (1, 4, 30, AIMED_HOURS)]
    assert fitted == [33, 25, 18, 10]


def test_a_lane_without_traffic_has_no_limit_and_other_limits_stay():
    busy, idle = limits(4)
    assert (idle.no_activity, busy.stuck) == (0, 6)


def test_a_lane_that_never_was_quiet_has_the_least_limit():
    assert limits(4, quiet=0.0)[BUSY].no_activity == 1
