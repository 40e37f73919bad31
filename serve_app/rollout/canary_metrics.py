"""Metrics of a canary and of the policy in service."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from rich.table import Table

_PREFIX = "ray_inference_"
_TARGETS = "prom_metrics_service_discovery.json"  # Ray keeps it on the head's node

Policy = tuple[str, str]  # primary or candidate, and the name of its hidden states


@dataclass
class PolicyMetrics:
    """Sums over replicas, since the start of each."""

    sums: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def decisions(self) -> int:
        return int(self.sums["predictions_total"])

    @property
    def entropy(self) -> float | None:
        """Mean entropy over actions, in nats."""
        return self._mean("entropy")

    @property
    def step_ms(self) -> float | None:
        """Mean duration of a batched step."""
        return self._mean("step_ms")

    @property
    def out_of_range(self) -> float | None:
        """Share of observed values outside of the training's range."""
        outside, inside = (self.sums[f"observed_values_{each}"] for each in ("outside", "inside"))
        return outside / (outside + inside) if outside + inside else None

    @property
    def compared(self) -> int:
        """Steps of a shadow that were compared with those of the policy in service."""
        return int(self.sums["shadow_agreed"] + self.sums["shadow_differed"])

    @property
    def agreement(self) -> float | None:
        """Share of the compared steps with the same action."""
        return self.sums["shadow_agreed"] / self.compared if self.compared else None

    def _mean(self, name: str) -> float | None:
        count = self.sums[f"{name}_count"]
        return self.sums[f"{name}_sum"] / count if count else None


def read_metrics(pages: Iterable[str], app: str) -> Mapping[Policy, PolicyMetrics]:
    """Add up the metrics of an application.

    Args:
        pages: of each node, in Prometheus' format.
    """
    metrics: defaultdict[Policy, PolicyMetrics] = defaultdict(PolicyMetrics)
    for page in pages:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                labels = sample.labels
                if labels.get("application") != app or not sample.name.startswith(_PREFIX):
                    continue
                name = sample.name.removeprefix(_PREFIX)
                policy = labels.get("policy", "candidate")
                if name == "shadow_steps_total":
                    name = f"shadow_{labels['outcome']}"
                elif name == "observed_values_total":
                    name = f"observed_values_{labels['range']}"
                metrics[policy, labels.get("states", "")].sums[name] += sample.value
    return metrics


def scrape_nodes(metrics_port: int, ray_dir: Path, report: Callable[[str], None]) -> Iterator[str]:
    """Yield the metrics page of each node; Ray's processes report to it every 10 s.

    Args:
        metrics_port: exporter of this node.
        ray_dir: temporary folder of Ray.
        report: called with a sentence about a node that does not answer.
    """
    for target in _targets(metrics_port, ray_dir):
        try:
            yield httpx.get(f"http://{target}/metrics", timeout=10).raise_for_status().text
        except httpx.HTTPError as error:
            report(f"The metrics of the node at {target} are missing: {error}")


def _targets(metrics_port: int, ray_dir: Path) -> list[str]:
    """Return the exporters of the cluster, or only that of this node if Ray does not list it."""
    try:
        groups = json.loads((ray_dir / _TARGETS).read_text())
    except (OSError, ValueError):
        groups = []
    targets = [str(target) for group in groups for target in group["targets"]]
    mine = any(target.endswith(f":{metrics_port}") for target in targets)
    return targets if mine else [f"127.0.0.1:{metrics_port}"]


def policies_of(user_config: Mapping[str, Any]) -> dict[str, Policy]:
    """Return each configured policy, by its place: in service, canary or shadow."""
    policies: dict[str, Policy] = {"in service": ("primary", user_config.get("states") or "")}
    if canary := user_config.get("canary"):
        policies[canary["mode"]] = ("candidate", canary["states"])
    return policies


def figures(metrics: PolicyMetrics | None) -> dict[str, float | None]:
    """Return what the table shows, as numbers."""
    metrics = metrics or PolicyMetrics()
    return {
        "decisions": metrics.decisions,
        "mean_entropy_nats": metrics.entropy,
        "mean_step_ms": metrics.step_ms,
        "observed_out_of_range": metrics.out_of_range,
        "steps_passed_on": metrics.sums["steps_passed_on_total"],
        "shadow_agreement": metrics.agreement,
        "shadow_compared": metrics.compared,
        "shadow_skipped": metrics.sums["shadow_skipped"],
        "shadow_failed": metrics.sums["shadow_failed"],
    }


def comparison_table(
    user_config: Mapping[str, Any], metrics: Mapping[Policy, PolicyMetrics]
) -> Table:
    """Return a table with a column for each configured policy."""
    columns = policies_of(user_config)
    table = Table("since its replicas started", *columns)
    for name, cell in _ROWS.items():
        table.add_row(
            name, *(cell(metrics.get(policy) or PolicyMetrics()) for policy in columns.values())
        )
    return table


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


_ROWS: dict[str, Callable[[PolicyMetrics], str]] = {
    "decisions": lambda metrics: f"{metrics.decisions:,}",
    "mean entropy, nats": lambda metrics: _number(metrics.entropy, ".3f"),
    "mean batched step, ms": lambda metrics: _number(metrics.step_ms, ".3f"),
    "observed values out of range": lambda metrics: _number(metrics.out_of_range, ".2%"),
    "steps left to the other policy": lambda metrics: (
        f"{metrics.sums['steps_passed_on_total']:,.0f}"
    ),
    "shadow: same action": lambda metrics: _number(metrics.agreement, ".1%"),
    "shadow: steps compared": lambda metrics: f"{metrics.compared:,}",
    "shadow: skipped, failed": lambda metrics: (
        f"{metrics.sums['shadow_skipped']:,.0f}, {metrics.sums['shadow_failed']:,.0f}"
    ),
}
