"""What the metrics tell of a policy that is tried and of the one in service."""

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

Part = tuple[str, str]  # primary or candidate, and the name of its hidden states


@dataclass
class Figures:
    """Sums over replicas, since each of them was started."""

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
        """Share of observed values out of the range of the training."""
        outside, inside = (self.sums[f"observed_values_{each}"] for each in ("outside", "inside"))
        return outside / (outside + inside) if outside + inside else None

    @property
    def compared(self) -> int:
        """Steps of a shadow whose action was compared with that of the policy in service."""
        return int(self.sums["shadow_agreed"] + self.sums["shadow_differed"])

    @property
    def agreement(self) -> float | None:
        """Share of them that had the same action."""
        return self.sums["shadow_agreed"] / self.compared if self.compared else None

    def _mean(self, name: str) -> float | None:
        count = self.sums[f"{name}_count"]
        return self.sums[f"{name}_sum"] / count if count else None


def figures_of(pages: Iterable[str], app: str) -> Mapping[Part, Figures]:
    """Add up what the nodes export.

    Args:
        pages: one of each node, in Prometheus' format.
    """
    figures: defaultdict[Part, Figures] = defaultdict(Figures)
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
                figures[policy, labels.get("states", "")].sums[name] += sample.value
    return figures


def pages_of(metrics_port: int, ray_dir: Path, report: Callable[[str], None]) -> Iterator[str]:
    """Yield what each node exports; Ray's processes report to it every 10 s.

    Args:
        metrics_port: exporter of this node.
        ray_dir: temporary folder of Ray.
        report: told of a node that does not answer.
    """
    for target in _targets(metrics_port, ray_dir):
        try:
            yield httpx.get(f"http://{target}/metrics", timeout=10).raise_for_status().text
        except httpx.HTTPError as error:
            report(f"Not counted: the node at {target} does not answer: {error}")


def _targets(metrics_port: int, ray_dir: Path) -> list[str]:
    """Return the exporters of the cluster; that of this node alone, when it is in no list."""
    try:
        groups = json.loads((ray_dir / _TARGETS).read_text())
    except (OSError, ValueError):
        groups = []
    targets = [str(target) for group in groups for target in group["targets"]]
    mine = any(target.endswith(f":{metrics_port}") for target in targets)
    return targets if mine else [f"127.0.0.1:{metrics_port}"]


def comparison(user_config: Mapping[str, Any], figures: Mapping[Part, Figures]) -> Table:
    """Return a table with a column for each policy that is configured."""
    columns: dict[str, Part] = {"in service": ("primary", user_config.get("states") or "")}
    candidate = user_config.get("candidate")
    if candidate:
        columns[candidate["mode"]] = ("candidate", candidate["states"])
    table = Table("since its replicas started", *columns)
    for name, tell in _ROWS.items():
        table.add_row(name, *(tell(figures.get(part) or Figures()) for part in columns.values()))
    return table


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


_ROWS: dict[str, Callable[[Figures], str]] = {
    "decisions": lambda figures: f"{figures.decisions:,}",
    "mean entropy, nats": lambda figures: _number(figures.entropy, ".3f"),
    "mean batched step, ms": lambda figures: _number(figures.step_ms, ".3f"),
    "observed values out of range": lambda figures: _number(figures.out_of_range, ".2%"),
    "steps left to the other": lambda figures: f"{figures.sums['steps_passed_on_total']:,.0f}",
    "shadow: same action": lambda figures: _number(figures.agreement, ".1%"),
    "shadow: steps compared": lambda figures: f"{figures.compared:,}",
    "shadow: skipped, failed": lambda figures: (
        f"{figures.sums['shadow_skipped']:,.0f}, {figures.sums['shadow_failed']:,.0f}"
    ),
}
