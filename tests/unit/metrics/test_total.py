from collections import Counter

import pytest

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


@pytest.mark.parametrize(
    ("tags", "key", "labels"),
    [(("junction", "action"), ("300839359", 2), ("300839359", "2")), ((), (), ())],
)
def test_keys_of_several_values_or_none_fill_the_tags_in_their_order(
    monkeypatch, tags, key, labels
):
    recorded = RecordedMetrics(monkeypatch)
    total = Total("predictions", "", tags)
    for number in (4, 6):
        total.publish({key: number})
    assert recorded.counted == {("predictions", *labels): 6}


def test_what_has_not_happened_yet_is_told_once_at_zero(monkeypatch):
    recorded = RecordedMetrics(monkeypatch)
    total = Total("logins", "", ("outcome",))
    total.publish({"success": 0})
    assert recorded.counted == {("logins", "success"): 0}
    recorded.counted.clear()
    total.publish({"success": 0})
    assert recorded.counted == {}
