from deployments.feed.messages import NO_DEMAND, Demand
from deployments.gateway.errors import InferenceUnavailableError
from deployments.gateway.telemetry import GatewayReporter
from deployments.http.messages import DEFAULT_RUN
from deployments.request_times import RequestTimes
from models.networks.shipped import JUNCTIONS

BODY = b'{"junctionId": "300839359", "observations": [1, 0, 1]}'


async def test_answers_and_fallbacks_of_watched_runs_are_told(
    service, inference, app, client, bearer
):
    reporter = GatewayReporter(service, app.state.request_times)
    reporter.on_demand_changed(Demand(True, frozenset({"watched", DEFAULT_RUN})))
    await client.post("/traffic/action", content=BODY, headers=bearer)
    inference.error = InferenceUnavailableError("unreachable")
    for named in ({"X-Simulation-Run": "watched"}, {"X-Simulation-Run": "another"}, {}):
        await client.post("/traffic/action", content=BODY, headers=bearer | named)
    contents = reporter.take()
    assert (contents.requests, sum(contents.latencies)) == (4, 4)
    assert contents.fallbacks["unreachable"] == 3
    assert contents.runs == {"watched": 1, "another": 1, DEFAULT_RUN: 1}
    assert [each.run for each in contents.decisions] == ["watched", DEFAULT_RUN]
    (fallback, _) = contents.decisions
    assert (fallback.junction, fallback.observation) == ("300839359", [1.0, 0.0, 1.0])
    assert (fallback.fallback, fallback.action, fallback.step) == ("unreachable", 0, 0)
    assert reporter.take().decisions == []


async def test_while_nobody_watches_nothing_is_noted(service, inference, act):
    reporter = GatewayReporter(service, RequestTimes())
    inference.error = InferenceUnavailableError("unreachable")
    await act()
    reporter.on_demand_changed(Demand(True, frozenset({DEFAULT_RUN})))
    reporter.on_demand_changed(NO_DEMAND)
    for junction in JUNCTIONS:
        await act(junction)
    contents = reporter.take()
    assert (contents.decisions, contents.runs) == ([], {})
