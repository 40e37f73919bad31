"""Dashboards as data, and their JSON for Grafana 11.

Schema: https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

Json = dict[str, Any]

SCHEMA_VERSION = 40
WIDTH = 24  # of Grafana's grid
HEIGHT = 8
SOURCE = {"type": "prometheus", "uid": "${source}"}

_GREEN, _YELLOW, _RED = "green", "yellow", "red"


@dataclass(frozen=True)
class Query:
    """An expression in PromQL, and the name of each of its lines, such as ``{{label}}``."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """A plot, or a single figure.

    Attributes:
        description: what it means, and which values need attention.
        unit: of Grafana: ``ms``, ``reqps``, ``percentunit``, ``short``, ...
        warn, alarm: bounds of yellow and red.
        stat: show a figure instead of a plot.
        stacked: add lines up.
        names: texts for values.
        width: of 24.
    """

    title: str
    description: str
    queries: Sequence[Query]
    unit: str = "short"
    warn: float | None = None
    alarm: float | None = None
    stat: bool = False
    stacked: bool = False
    names: dict[int, str] = field(default_factory=dict)
    width: int = 8

    def json(self, number: int, x: int, y: int) -> Json:
        """Return the panel at a place in the grid."""
        return {
            "id": number,
            "type": "stat" if self.stat else "timeseries",
            "title": self.title,
            "description": self.description,
            "datasource": SOURCE,
            "gridPos": {"h": HEIGHT, "w": self.width, "x": x, "y": y},
            "targets": [
                {
                    "refId": chr(ord("A") + n),
                    "datasource": SOURCE,
                    "expr": query.expr,
                    "legendFormat": query.legend or "__auto",
                    "range": True,
                }
                for n, query in enumerate(self.queries)
            ],
            "fieldConfig": {"defaults": self._defaults(), "overrides": []},
            "options": self._options(),
        }

    def _defaults(self) -> Json:
        bounds = [(None, _GREEN), (self.warn, _YELLOW), (self.alarm, _RED)]
        steps = [
            {"color": color, "value": bound}
            for bound, color in bounds
            if bound is not None or color == _GREEN
        ]
        defaults: Json = {
            "unit": self.unit,
            "min": 0,
            "thresholds": {"mode": "absolute", "steps": steps},
            "mappings": self._mappings(),
        }
        if not self.stat:
            defaults["custom"] = {
                "fillOpacity": 30 if self.stacked else 0,
                "stacking": {"mode": "normal" if self.stacked else "none"},
                "thresholdsStyle": {"mode": "line" if len(steps) > 1 else "off"},
            }
        return defaults

    def _mappings(self) -> list[Json]:
        named = {str(value): {"text": text} for value, text in self.names.items()}
        return [{"type": "value", "options": named}] if named else []

    def _options(self) -> Json:
        if self.stat:
            return {"colorMode": "background", "reduceOptions": {"calcs": ["lastNotNull"]}}
        return {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }


@dataclass(frozen=True)
class Dashboard:
    """A page of panels.

    Attributes:
        uid: in its address in Grafana.
        description: the question that it answers.
        rows: each as wide as the page.
    """

    uid: str
    title: str
    description: str
    rows: Sequence[Sequence[Panel]]

    @property
    def panels(self) -> list[Panel]:
        return [panel for row in self.rows for panel in row]

    def json(self) -> Json:
        numbers = count(1)
        panels = []
        for n, row in enumerate(self.rows):
            x = 0
            for panel in row:
                panels.append(panel.json(next(numbers), x, n * HEIGHT))
                x += panel.width
        return {
            "uid": self.uid,
            "title": f"Greenwave: {self.title}",
            "description": self.description,
            "tags": ["greenwave"],
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,  # a cursor in every panel
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": [_SOURCE_VARIABLE]},
            "links": [_LINK_TO_OTHERS],
            "annotations": {"list": [_ALERTS]},
            "panels": panels,
        }


_SOURCE_VARIABLE: Json = {
    "name": "source",
    "label": "Prometheus",
    "type": "datasource",
    "query": "prometheus",
    "current": {},
    "hide": 0,
    "refresh": 1,
}
_LINK_TO_OTHERS: Json = {
    "type": "dashboards",
    "title": "Greenwave",
    "tags": ["greenwave"],
    "asDropdown": True,
    "includeVars": True,
    "keepTime": True,
}
_ALERTS: Json = {
    "name": "Alerts",
    "datasource": SOURCE,
    "enable": True,
    "iconColor": "red",
    "expr": 'ALERTS{alertstate="firing"}',
    "titleFormat": "{{alertname}}",
}
