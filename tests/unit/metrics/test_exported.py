from collections import Counter

from deployments.metrics.exported import RequestMetrics, Total
from deployments.request_times import RequestTimes
from tests.unit.metrics.recorded import RecordedMetrics

NAME = "http_request_ms_bucket"


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


def test_what_has_not_happened_yet_is_told_once_at_zero(monkeypatch):
    recorded = RecordedMetrics(monkeypatch)
    total = Total("logins", "", ("outcome",))
    total.publish({"success": 0})
    assert recorded.counted == {("logins", "success"): 0}
    recorded.counted.clear()
    total.publish({"success": 0})
    assert recorded.counted == {}


def test_a_status_is_told_with_all_of_its_buckets_from_its_first_request_on(monkeypatch):
    recorded = RecordedMetrics(monkeypatch)
    times = RequestTimes()
    times.at_work = 7
    metrics = RequestMetrics(times)
    times.of("POST", "/step").observe(200, 0.0012)
    metrics.publish()
    told = {key[1:]: count for key, count in recorded.counted.items() if key[0] == NAME}
    assert told["POST", "/step", "200", "1"] == 0
    assert told["POST", "/step", "200", "1.5"] == 1
    assert told["POST", "/step", "200", "4000"] == 1
    assert told["POST", "/step", "200", "+Inf"] == 1

    times.of("POST", "/step").observe(200, 60)
    metrics.publish()
    assert recorded.counted[NAME, "POST", "/step", "200", "+Inf"] == 2
    assert recorded.counted[NAME, "POST", "/step", "200", "4000"] == 1
    assert recorded.observed == [(("http_requests_at_work",), 7)] * 2
