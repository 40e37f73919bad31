"""Writes configs/grafana/dashboards/ anew."""

from __future__ import annotations

import json
from pathlib import Path

from serve_app.watch.dashboards.forecasts import FORECASTS
from serve_app.watch.dashboards.gateway import GATEWAY
from serve_app.watch.dashboards.hidden_states import HIDDEN_STATES
from serve_app.watch.dashboards.model import Dashboard
from serve_app.watch.dashboards.records import RECORDS
from serve_app.watch.dashboards.replicas import REPLICAS
from serve_app.watch.dashboards.requests import REQUESTS
from serve_app.watch.dashboards.signals import SIGNALS

FOLDER = Path(__file__).resolve().parents[3] / "configs" / "grafana" / "dashboards"
DASHBOARDS = (REQUESTS, SIGNALS, HIDDEN_STATES, GATEWAY, RECORDS, FORECASTS, REPLICAS)


def file_of(dashboard: Dashboard) -> Path:
    return FOLDER / f"{dashboard.uid.removeprefix('greenwave-')}.json"


def render(dashboard: Dashboard) -> str:
    return json.dumps(dashboard.json(), indent=1) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for each in DASHBOARDS:
        file_of(each).write_text(render(each))
