"""The committed dashboards: as described, readable by Grafana, and with queries that parse."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard as GrafanasDashboard

from tests.unit.rules.promtool import RULES, promtool
from tools.dashboards.__main__ import DASHBOARDS, FOLDER, file_of, render
from tools.dashboards.model import WIDTH, Panel, Query

UNITS = {"short", "ms", "ops", "reqps", "percentunit", "bytes"}
RECORD = re.compile(r"greenwave:[a-z0-9_:]+")

every_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.uid)


@every_dashboard
def test_what_is_committed_is_what_is_described(dashboard):
    assert file_of(dashboard).read_text() == render(dashboard), "run `make reference`"


def test_nothing_else_is_committed():
    assert set(FOLDER.iterdir()) == set(map(file_of, DASHBOARDS))


def test_no_two_dashboards_share_an_address():
    assert len({each.uid for each in DASHBOARDS}) == len(DASHBOARDS)


@every_dashboard
def test_grafana_knows_every_key_and_value(dashboard):
    register_default_plugins()
    ours = json.loads(render(dashboard))
    theirs = json.loads(JSONEncoder().encode(GrafanasDashboard.from_json(ours)))
    known_to_prometheus_alone = {"/annotations/list/0/titleFormat"}
    assert set(lost(ours, theirs)) == known_to_prometheus_alone


def lost(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Yield where something is missing or another after Grafana's model has read and written it."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from lost(value, theirs.get(key, ...), f"{path}/{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for n, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from lost(one, other, f"{path}/{n}")
    elif ours != theirs:
        yield path


@every_dashboard
def test_each_asks_the_source_that_is_chosen(dashboard):
    document = json.loads(render(dashboard))
    (variable,) = document["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    source = "${" + variable["name"] + "}"
    for panel in document["panels"]:
        for each in (panel, *panel["targets"]):
            assert each["datasource"] == {"type": "prometheus", "uid": source}


@every_dashboard
def test_panels_fill_the_width_without_meeting(dashboard):
    panels = json.loads(render(dashboard))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    height = max(y for _, y in taken) + 1
    assert sorted(taken) == [(x, y) for x in range(WIDTH) for y in range(height)]


@every_dashboard
def test_every_panel_has_a_description_and_a_unit_that_grafana_knows(dashboard):
    for panel in dashboard.panels:
        assert panel.description.endswith("."), panel.title
        assert panel.unit in UNITS, panel.title
        assert all(query.legend for query in panel.queries), panel.title


@every_dashboard
def test_bounds_rise_from_green_to_red(dashboard):
    for panel in json.loads(render(dashboard))["panels"]:
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert steps[0] == {"color": "green", "value": None}
        bounds = [step["value"] for step in steps[1:]]
        assert bounds == sorted(bounds)


def test_every_query_parses(tmp_path):
    queries = [query.expr for each in DASHBOARDS for p in each.panels for query in p.queries]
    rules = [
        {"record": "asked", "expr": expr.replace("$__rate_interval", "1m")} for expr in queries
    ]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    command = [promtool(), "check", "rules", "--lint=none", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_what_queries_and_alerts_take_from_rules_is_recorded():
    groups = [group for path in RULES for group in yaml.safe_load(path.read_text())["groups"]]
    rules = [rule for group in groups for rule in group["rules"]]
    recorded = {rule["record"] for rule in rules if "record" in rule}
    asked = [query.expr for each in DASHBOARDS for p in each.panels for query in p.queries]
    named = {
        name for text in [*asked, *(r["expr"] for r in rules)] for name in RECORD.findall(text)
    }
    assert named <= recorded
    assert recorded <= named, "unused rules"


def test_a_panel_with_names_shows_them_in_place_of_values():
    panel = Panel("Breaker", "", [Query("up")], stat=True, names={0: "closed"})
    defaults = panel.json(1, 0, 0)["fieldConfig"]["defaults"]
    assert defaults["mappings"] == [{"type": "value", "options": {"0": {"text": "closed"}}}]
