import json

from greenwave.client import Client, Retries
from greenwave.client.call import NoReply, Reply, Send
from models.networks.shipped import JUNCTIONS
from serve_app.demo.flow_forecasts import DAY_S, FlowForecasts
from tests.unit.greenwave.client.play import REFUSED, Exchanges, answer

NOW_S = 100 * DAY_S + 5000
FORECAST = {
    "junction_id": "300839359",
    "forecast_timestamp": 900,
    "predicted_flow": 20,
    "confidence": 0.9,
    "status": "success",
    "timestamp": 1,
}


class FakeDetectors:
    looks = 0

    def look(self):
        self.looks += 1

    def minute(self):
        return dict.fromkeys(JUNCTIONS, (self.looks, 40.0, 0.1))


def test_it_asks_for_each_junction_once_a_minute_with_all_minutes_before():
    asked: list[dict[str, object]] = []

    async def handle(send: Send) -> Reply:
        asked.append(json.loads(send.body or b""))
        return answer(body=FORECAST)

    with Client("http://service", exchange=Exchanges(handle)) as client:
        forecasts = FlowForecasts(client, FakeDetectors(), NOW_S)
        for time_s in range(5, 121, 5):
            forecasts.after_step(time_s)
    assert len(asked) == 2 * len(JUNCTIONS)
    assert {str(each["junction_id"]) for each in asked} == set(JUNCTIONS)
    yesterday = 99 * DAY_S
    minutes = [
        {"timestamp": yesterday + 60, "vehicle_count": 12, "avg_speed": 40.0, "occupancy": 0.1},
        {"timestamp": yesterday + 120, "vehicle_count": 24, "avg_speed": 40.0, "occupancy": 0.1},
    ]
    assert asked[-1]["historical_data"] == minutes


def test_where_no_forecast_is_served_it_asks_no_more():
    calls = 0

    async def handle(send: Send) -> NoReply:
        nonlocal calls
        calls += 1
        return REFUSED

    with Client("http://service", exchange=Exchanges(handle)) as client:
        forecasts = FlowForecasts(client, FakeDetectors(), NOW_S)
        for time_s in range(60, 600, 5):
            forecasts.after_step(time_s)
    assert 0 < calls <= Retries().attempts * len(JUNCTIONS)
