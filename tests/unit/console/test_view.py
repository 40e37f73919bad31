"""What is shown of what replicas tell."""

from deployments.console.replicas import GONE_S, SILENT_S, Rates, Replica, Replicas
from deployments.console.runs import ACTIVE_S, MAX_RECENT, MAX_RUNS
from deployments.console.view import Forecasts, Mark, View
from deployments.feed.messages import Contents, FlowForecast, Report, Source
from deployments.request_times import RouteTimes
from models.networks.shipped import JUNCTIONS
from tests.unit.console.reports import INFERENCE, SMALL, decision, report, shown

NEW = Mark()


def view_of(view: View, told: Mark = NEW, run: str | None = None, now: float = 0.0):
    return shown(view.event(run, told, 0, now))


def test_a_decision_is_shown_once_to_who_was_told_and_again_to_who_comes_new():
    view = View(JUNCTIONS)
    view.add(report(decision(step=3)), 0.0)
    first = view_of(view)
    assert first["run"] == "run"
    assert [each["step"] for each in first["decisions"]] == [3]
    (told,) = first["decisions"]
    assert told["junction"] == SMALL
    assert told["probabilities"][told["action"]] == 0.75
    assert "hidden" not in told
    mark = view.mark
    assert view_of(view, mark)["decisions"] == []
    view.add(report(decision(step=4, faults=["stuck", "", "", "", ""])), 0.1)
    (told,) = view_of(view, mark)["decisions"]
    assert (told["step"], told["faults"]) == (4, ["stuck", "", "", "", ""])
    assert [each["step"] for each in view_of(view)["decisions"]] == [3, 4]


def test_what_if_is_about_the_step_that_a_page_shows_and_else_about_the_latest():
    runs = View(JUNCTIONS).runs
    runs.add(report(*(decision(step=step) for step in (3, 4, 5))).contents, 0.0)
    found = [runs.latest("run", SMALL, step) for step in (0, 4, 9)]
    assert [each and each.step for each in found] == [5, 4, None]


def test_junctions_of_other_networks_are_not_drawn_but_their_run_is_listed():
    view = View(JUNCTIONS)
    view.add(report(decision(junction="elsewhere")), 0.0)
    assert view_of(view)["decisions"] == []
    assert [each["run"] for each in view_of(view)["runs"]] == ["run"]


def test_neither_runs_nor_their_decisions_fill_the_memory():
    view = View(JUNCTIONS)
    for n in range(3 * MAX_RUNS):
        view.add(report(decision(run=f"run-{n}")), float(n))
    for step in range(5 * MAX_RECENT):
        view.add(report(decision(run="run-149", step=step)), 150.0)
    assert len(view_of(view, now=150.0)["runs"]) == MAX_RUNS
    steps = [each["step"] for each in view_of(view, run="run-149")["decisions"]]
    assert steps == list(range(4 * MAX_RECENT, 5 * MAX_RECENT))
    assert view_of(view, run="run-0")["decisions"] == []


def test_who_chose_no_run_sees_one_that_drives_until_it_drives_no_more():
    view = View(JUNCTIONS)
    assert view_of(view)["run"] is None
    view.add(report(decision(run="first")), 0.0)
    view.add(report(decision(run="second")), 1.0)
    assert view_of(view, now=0.5)["run"] == "second"
    view.add(report(decision(run="third")), 2.0)
    assert view_of(view, now=2.0)["run"] == "second"
    view.add(report(decision(run="third")), 2.0 + ACTIVE_S)
    assert view_of(view, now=2.0 + ACTIVE_S)["run"] == "third"
    assert view_of(view, now=100.0)["run"] == "third"
    assert view_of(view, run="first", now=100.0)["run"] == "first"


def of_gateway(replica: str, requests: int, at: float, **contents: object) -> Report:
    source = Source("gateway", "Gateway", replica)
    return Report(source, at, Contents(requests, **contents))  # type: ignore[arg-type]


def test_rates_are_those_of_all_replicas_that_speak():
    rates, times = Rates(), RouteTimes()
    for second in range(3):
        rates.add(of_gateway("a", 100 * second, float(second)), float(second))
        for _ in range(10):
            times.observe(200, 0.0045)
        told = {"latencies": times.totals(), "fallbacks": {"too_slow": 2 * second}}
        # the clock of another machine
        rates.add(of_gateway("b", 50 * second, 1000.0 + second, **told), float(second))
    summary = rates.summary(2.0)
    assert summary["requests_per_s"] == {"Gateway": 150.0}
    assert summary["latency_ms"] == {"Gateway": {"p50": 4.0, "p99": 4.98}}
    assert summary["fallbacks"] == {"too_slow": 4}
    rates.add(of_gateway("a", 300, 3.0), 2.0 + SILENT_S)
    assert rates.summary(2.0 + SILENT_S)["fallbacks"] == {}, "b has fallen silent"


def test_a_replica_that_falls_silent_or_goes_is_shown_so_and_forgotten_later():
    rates, replicas = Rates(), Replicas()
    assert replicas.described(rates, 0.0) is None
    running = Replica("inference", "Inference", INFERENCE.replica, "RUNNING")
    other = Replica("loans", "CustomerRecords", "never-tells", "RUNNING")

    def states(now):
        return {each["id"]: each["state"] for each in replicas.described(rates, now) or []}

    rates.add(report(), 0.0)
    replicas.update([running, other], 0.0)
    assert states(1.0) == {running.id: "RUNNING", other.id: "RUNNING"}
    assert states(1.0 + SILENT_S) == {running.id: "SILENT", other.id: "RUNNING"}
    successor = running._replace(id="replica-2", state="STARTING")
    replicas.update([successor, other], 4.0)
    assert states(4.0) == {running.id: "GONE", successor.id: "STARTING", other.id: "RUNNING"}
    successor = successor._replace(state="RUNNING")
    replicas.update([successor, other], 4.0 + GONE_S)
    assert states(4.0 + GONE_S) == {successor.id: "RUNNING", other.id: "RUNNING"}


def forecast(minute: int, counts: list[float], flow: float) -> FlowForecast:
    return FlowForecast(SMALL, 60 * minute, counts, flow, 900, 0.8)


def test_a_forecast_stands_beside_the_mean_that_came_once_all_of_it_is_told():
    forecasts = Forecasts(JUNCTIONS)
    forecasts.add(forecast(60, [10.0] * 60, 20.0))
    forecasts.add(forecast(74, [20.0] * 14, 21.0))
    assert [each["came"] for each in forecasts.described()[SMALL]["forecasts"]] == [None, None]
    forecasts.add(forecast(75, [20.0] * 14 + [50.0], 22.0))
    described = forecasts.described()[SMALL]
    assert [each["came"] for each in described["forecasts"]] == [22.0, None, None]
    assert (
        described["forecasts"][0] | {"flow": 20.0, "from": 3600, "to": 4500}
        == (described["forecasts"][0])
    )
    assert len(described["counts"]) == 75


def test_another_day_begins_with_a_forecast_of_an_earlier_time():
    forecasts = Forecasts(JUNCTIONS)
    forecasts.add(forecast(600, [10.0] * 60, 20.0))
    forecasts.add(forecast(5, [1.0] * 5, 2.0))
    described = forecasts.described()[SMALL]
    assert [count for _, count in described["counts"]] == [1.0] * 5
    assert len(described["forecasts"]) == 1
