"""Metrics of a canary and of the policy in service."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from rich.table import Table

from serve_app.ray_dashboard import RayDashboard
from serve_app.rollout.capacity import nodes_of

_PREFIX = "ray_inference_"
_TARGETS = "/api/prometheus/sd"

Policy = tuple[str, str]  # primary or candidate, and the name of its hidden states


Sums = defaultdict[str, float]  # by metric, over replicas, since the start of each


def read_metrics(pages: Iterable[str], app: str) -> defaultdict[Policy, Sums]:
    """Add up the metrics of an application.

    Args:
        pages: of each node, in Prometheus' format.
    """
    metrics: defaultdict[Policy, Sums] = defaultdict(lambda: defaultdict(float))
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
                metrics[policy, labels.get("states", "")][name] += sample.value
    return metrics


def scrape_nodes(dashboard: RayDashboard, report: Callable[[str], None]) -> Iterator[str]:
    """Yield the metrics page of each node; Ray's processes report to it every 10 s.

    Args:
        report: called with a sentence about a node that does not answer.

    Raises:
        httpx.HTTPError: the dashboard does not answer.
    """
    targets = [each for group in dashboard.get(_TARGETS, 10.0).json() for each in group["targets"]]
    for target in targets[: len(nodes_of(dashboard))]:  # Ray's own processes follow
        try:
            yield httpx.get(f"http://{target}/metrics", timeout=10).raise_for_status().text
        except httpx.HTTPError as error:
            report(f"The metrics of the node at {target} are missing: {error}")


def policies_of(user_config: Mapping[str, Any]) -> dict[str, Policy]:
    """Return each configured policy, by its place: in service, canary or shadow."""
    policies: dict[str, Policy] = {"in service": ("primary", user_config.get("states") or "")}
    if canary := user_config.get("canary"):
        policies[canary["mode"]] = ("candidate", canary["states"])
    return policies


def figures(sums: Sums) -> dict[str, float | None]:
    """Return what is compared of a policy; means and shares of nothing are None."""
    outside, inside = (sums[f"observed_values_{each}"] for each in ("outside", "inside"))
    compared = sums["shadow_agreed"] + sums["shadow_differed"]
    return {
        "decisions": int(sums["predictions_total"]),
        "mean_entropy_nats": _ratio(sums["entropy_sum"], sums["entropy_count"]),
        "mean_step_ms": _ratio(sums["step_ms_sum"], sums["step_ms_count"]),
        "observed_out_of_range": _ratio(outside, outside + inside),
        "shadow_agreement": _ratio(sums["shadow_agreed"], compared),
        "shadow_compared": int(compared),
        "shadow_skipped": int(sums["shadow_skipped"]),
        "shadow_failed": int(sums["shadow_failed"]),
    }


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def comparison_table(user_config: Mapping[str, Any], metrics: defaultdict[Policy, Sums]) -> Table:
    """Return a table with a column for each configured policy."""
    columns = policies_of(user_config)
    table = Table("since its replicas started", *columns)
    shown = [figures(metrics[policy]) for policy in columns.values()]
    for name in shown[0]:
        table.add_row(name.replace("_", " "), *(_in_words(each[name]) for each in shown))
    return table


def _in_words(figure: float | None) -> str:
    if figure is None:
        return "-"
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:.3f}"
