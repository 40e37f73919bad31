from deployments.metrics.exported import RequestMetrics
from deployments.request_times import RequestTimes
from tests.unit.metrics.recorded import RecordedMetrics

NAME = "http_request_ms_bucket"


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
