"""The committed dashboards: complete, and with queries that parse."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.unit.rules.promtool import RULES, promtool

FILES = sorted((Path(__file__).parents[3] / "configs" / "grafana" / "dashboards").iterdir())
DASHBOARDS = [json.loads(file.read_text()) for file in FILES]
QUERIES = [
    target["expr"]
    for dashboard in DASHBOARDS
    for panel in dashboard["panels"]
    for target in panel["targets"]
]
UNITS = {"short", "ms", "ops", "reqps", "percentunit", "bytes"}
RECORD = re.compile(r"greenwave:[a-z0-9_:]+")

every_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each["uid"])


def test_no_two_dashboards_share_an_address():
    assert len({each["uid"] for each in DASHBOARDS}) == len(DASHBOARDS) == 7


@every_dashboard
def test_each_asks_the_source_that_is_chosen(dashboard):
    (variable,) = dashboard["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    source = "${" + variable["name"] + "}"
    for panel in dashboard["panels"]:
        for each in (panel, *panel["targets"]):
            assert each["datasource"] == {"type": "prometheus", "uid": source}


@every_dashboard
def test_every_panel_has_a_description_and_a_unit_that_grafana_knows(dashboard):
    for panel in dashboard["panels"]:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]


def test_every_query_parses(tmp_path):
    rules = [
        {"record": "asked", "expr": expr.replace("$__rate_interval", "1m")} for expr in QUERIES
    ]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    command = [promtool(), "check", "rules", "--lint=none", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_queries_and_alerts_take_from_rules_is_recorded():
    groups = [group for path in RULES for group in yaml.safe_load(path.read_text())["groups"]]
    rules = [rule for group in groups for rule in group["rules"]]
    recorded = {rule["record"] for rule in rules if "record" in rule}
    texts = [*QUERIES, *(rule["expr"] for rule in rules)]
    named = {name for text in texts for name in RECORD.findall(text)}
    assert named <= recorded
    assert recorded <= named, "unused rules"
