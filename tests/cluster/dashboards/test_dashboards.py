"""After some load, a real Prometheus has an answer to whatever dashboards and alerts ask."""

import json
import math
import re
import time

import httpx
import pytest
import yaml

from load_tests.harness.shipped import ROOT
from tests.cluster.dashboards.conftest import EVERY_S, TOLD_S, Watched

pytestmark = pytest.mark.timeout(600)  # the first test waits for the system

RULES = [
    rule
    for path in sorted((ROOT / "configs" / "rules").glob("*.yml"))
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
]
COMPARISON = re.compile(r" (?:<|>|==|!=) [\d.]+\s*$")
PATIENCE_S = 90.0
QUERIES = {
    f"{file.stem}: {panel['title']}: {query['legendFormat']}": query["expr"].replace(
        "$__rate_interval", "1m"
    )
    for file in (ROOT / "configs" / "grafana" / "dashboards").iterdir()
    for panel in json.loads(file.read_text())["panels"]
    for query in panel["targets"]
}
RECORDED = {rule["record"]: rule["record"] for rule in RULES if "record" in rule}
# What an alert watches has to be there while all is well, or the alert never comes.
LEFT = {rule["alert"]: COMPARISON.sub("", rule["expr"]) for rule in RULES if "alert" in rule}


def test_nothing_that_is_asked_is_empty(watched):
    asked = QUERIES | RECORDED | LEFT
    assert len(asked) > 80
    assert all(expr != rule["expr"] for rule in RULES for expr in [LEFT.get(rule.get("alert"))])
    deadline = time.monotonic() + PATIENCE_S
    while asked:
        assert time.monotonic() < deadline, asked
        watched.load(rounds=10)  # a rate needs two looks
        asked = {name: expr for name, expr in asked.items() if not has_values(watched, expr)}


def has_values(watched: Watched, expression: str) -> bool:
    values = [float(series["value"][1]) for series in watched.ask(expression)]
    return any(not math.isnan(value) for value in values)


def test_requests_are_counted_as_clients_count_them(watched):
    total = 'sum(ray_http_request_ms_bucket_total{application="loans", le="+Inf", method="POST"})'
    watched.load(rounds=1)
    before = steady(watched, total)
    watched.load(rounds=7)
    assert steady(watched, total, least=before + 7) == before + 7


def steady(watched: Watched, expression: str, least: float = 0.0) -> float:
    """Return a sum once it has stayed the same for as long as it can be late.

    Args:
        least: what it is waited for to become, with patience.
    """
    seen, since = -1.0, time.monotonic()
    deadline = since + PATIENCE_S
    while (seen < least and time.monotonic() < deadline) or (
        time.monotonic() - since < 2 * (TOLD_S + EVERY_S)
    ):
        values = [float(series["value"][1]) for series in watched.ask(expression)]
        if sum(values) != seen:
            seen, since = sum(values), time.monotonic()
        time.sleep(0.2)
    return seen


def test_no_label_holds_what_a_client_makes_up(watched):
    watched.load(rounds=2)
    httpx.get(f"{watched.system.url}/made-up", timeout=10)
    series = watched.ask('{__name__=~"ray_(http|inference|gateway|density|flow|customer).*"}')
    values = {value for each in series for value in each["metric"].values()}
    assert len(values) > 50
    assert not [value for value in values if "run-" in value or "made-up" in value]


def test_no_alert_comes_while_all_is_well(watched):
    watched.load(rounds=2)
    firing = watched.ask('ALERTS{alertstate="firing"}')
    # The load of the tests is not like the traffic of the training; the machine is not theirs.
    expected = {"InputsDrift", "ObservationsDrift", "RequestsSlow", "MemoryFull"}
    assert {each["metric"]["alertname"] for each in firing} <= expected
