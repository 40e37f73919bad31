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


def test_outages_last_until_the_policy_is_back_or_they_were_last_seen():
    log = log_of(0, 2, 5, 1, 0, 0, 3)
    assert log.outages == [
        Outage(SEVEN + 5, SEVEN + 20, 101, 104, 8, "1 missing"),
        Outage(SEVEN + 30, SEVEN + 35, 106, 106, 3, "3 missing"),
    ]
    assert log.decisions == 11
