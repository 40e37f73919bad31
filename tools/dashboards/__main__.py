"""Writes configs/grafana/dashboards/ (``make reference``)."""

from __future__ import annotations

import json
from pathlib import Path

from tools.dashboards.forecasts import FORECASTS
from tools.dashboards.gateway import GATEWAY
from tools.dashboards.hidden_states import HIDDEN_STATES
from tools.dashboards.model import Dashboard
from tools.dashboards.records import RECORDS
from tools.dashboards.replicas import REPLICAS
from tools.dashboards.requests import REQUESTS
from tools.dashboards.signals import SIGNALS

FOLDER = Path(__file__).resolve().parents[2] / "configs" / "grafana" / "dashboards"
DASHBOARDS = (REQUESTS, SIGNALS, HIDDEN_STATES, GATEWAY, RECORDS, FORECASTS, REPLICAS)


def file_of(dashboard: Dashboard) -> Path:
    return FOLDER / f"{dashboard.uid.removeprefix('greenwave-')}.json"


def render(dashboard: Dashboard) -> str:
    return json.dumps(dashboard.json(), indent=1) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for each in DASHBOARDS:
        file_of(each).write_text(render(each))
