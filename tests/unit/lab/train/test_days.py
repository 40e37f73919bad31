from lab.net.net import load_net
from lab.sim.daily_demand import HOUR_S
from lab.train.forecasts.generate import WEEKEND, draw_day, is_weekend
from models.networks.shipped import NET_FILE


def test_a_day_is_the_same_on_every_call_and_no_other():
    assert draw_day(3) == draw_day(3)
    assert draw_day(3) != draw_day(10)
    assert draw_day(3).seed != draw_day(10).seed


def test_two_days_of_seven_are_weekend():
    assert [number for number in range(14) if is_weekend(number)] == [5, 6, 12, 13]
    assert draw_day(5).expected is WEEKEND
    assert draw_day(4).expected is not WEEKEND


def test_breakdowns_leave_a_lane_open():
    lanes = {edge: len(known) for edge, known in load_net(NET_FILE).edge_lanes.items()}
    breakdowns = [each for number in range(100) for each in draw_day(number).breakdowns]
    assert len(breakdowns) > 30
    for breakdown in breakdowns:
        assert 0 <= breakdown.lane < lanes[breakdown.edge]
        assert lanes[breakdown.edge] > 1
        assert 6 * HOUR_S <= breakdown.depart_s < 21 * HOUR_S
