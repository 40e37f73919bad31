"""Which stretches of a run went without the policy, and when."""

from collections.abc import Iterator
from itertools import count

from serve_app.demo.outages import Outage, OutageLog

SEVEN = 7 * 3600


def log_of(*without_policy: int) -> OutageLog:
    """Log a decision every 5 simulated and one wall-clock second, from 7:00 and second 100 on."""
    ticks: Iterator[int] = count(100)
    log = OutageLog(SEVEN, 5, clock=lambda: float(next(ticks)))
    for missing in without_policy:
        log.decided(missing, f"{missing} missing")
    return log


def test_an_outage_lasts_until_the_policy_is_back():
    log = log_of(0, 2, 5, 1, 0, 0)
    assert log.outages == [Outage(SEVEN + 5, SEVEN + 20, 101, 104, 8, "1 missing")]
    assert log.decisions == 8


def test_outages_are_distinguished():
    first, second = log_of(5, 0, 0, 3, 0).outages
    assert (first.begin_s, first.end_s, first.decisions) == (SEVEN, SEVEN + 5, 5)
    assert (second.begin_s, second.end_s, second.decisions) == (SEVEN + 15, SEVEN + 20, 3)


def test_an_outage_at_the_end_lasts_until_it_was_last_seen():
    (outage,) = log_of(0, 5, 5).outages
    assert (outage.end_s, outage.ended) == (SEVEN + 15, 102)
