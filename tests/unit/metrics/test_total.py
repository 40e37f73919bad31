from collections import Counter

from deployments.metrics.exported import Total
from tests.unit.metrics.recorded import RecordedMetrics


def test_each_call_counts_only_what_is_new(monkeypatch):
    recorded = RecordedMetrics(monkeypatch)
    total = Total("logins", "", ("outcome",))
    totals = Counter({"success": 2})
    total.publish(totals)
    total.publish(totals)
    totals["success"] += 3
    totals["401"] += 1
    total.publish(totals)
    assert recorded.counted == {("logins", "success"): 5, ("logins", "401"): 1}


def test_keys_of_several_values_fill_the_tags_in_their_order(monkeypatch):
    recorded = RecordedMetrics(monkeypatch)
    Total("predictions", "", ("junction", "action")).publish({("300839359", 2): 7})
    assert recorded.counted == {("predictions", "300839359", "2"): 7}


def test_a_total_without_tags(monkeypatch):
    recorded = RecordedMetrics(monkeypatch)
    total = Total("commits", "", ())
    for number in (4, 6):
        total.publish({(): number})
    assert recorded.counted == {("commits",): 6}


def test_what_has_not_happened_yet_is_told_once_at_zero(monkeypatch):
    recorded = RecordedMetrics(monkeypatch)
    total = Total("logins", "", ("outcome",))
    total.publish({"success": 0})
    assert recorded.counted == {("logins", "success"): 0}
    recorded.counted.clear()
    total.publish({"success": 0})
    assert recorded.counted == {}
