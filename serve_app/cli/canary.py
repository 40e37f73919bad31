"""``greenwave canary``: run a policy beside the one in service."""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families
from rich.table import Table

from serve_app.cli.arguments import Run, add_action, add_json, add_system, add_timeout
from serve_app.cli.deploy import print_problems, rollout_of
from serve_app.cli.status import cluster_of, running
from serve_app.cli.terminal import results, warn, write_json
from serve_app.errors import CommandError
from serve_app.processes.installation import releases_of, releases_of_cluster
from serve_app.ray_dashboard import RayDashboard
from serve_app.rollout import canary
from serve_app.rollout.capacity import nodes_of

Config = dict[str, Any]
Change = Callable[[Config, str, argparse.Namespace], Config]

_HINT = "A deploy knows its config file only, where this belongs to the deployment Inference:"


def add_canary(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(required=True, metavar="ACTION")
    start = _add_change(
        actions, "start", _start, "run a policy on a share of the runs, or as a shadow"
    )
    start.add_argument("file", type=Path, help="policy, where every replica can read it")
    share = "of the runs, such as 10%% (default: 10%%, of a shadow 100%%)"
    start.add_argument("--share", type=_read_share, help=share)
    shadow = "let it step beside the policy in service without answering"
    start.add_argument("--shadow", action="store_true", help=shadow)
    more = _add_change(actions, "share", _share, "give the canary another share of the runs")
    more.add_argument("share", type=_read_share, help="of the runs, such as 25%%")
    promote = "put the canary in service, with its hidden states"
    _add_change(actions, "promote", lambda now, app, _: canary.promote_canary(now, app), promote)
    drop = "remove the canary"
    _add_change(actions, "drop", lambda now, app, _: canary.drop_canary(now, app), drop)
    add_json(_add(actions, "status", _status, "compare the canary with the policy in service"))


def _add(actions: Any, name: str, run: Run, help: str) -> argparse.ArgumentParser:
    action = add_action(actions, name, run, help, has_instance=False)
    add_system(action)
    action.add_argument("--app", help="inference application, if there are several")
    return action


def _add_change(actions: Any, name: str, change: Change, help: str) -> argparse.ArgumentParser:
    action = _add(actions, name, partial(_deploy, change), help)
    add_timeout(action)
    return action


def _read_share(text: str) -> float:
    number = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", text)
    if number is None or float(number[1]) > 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share from 0% to 100%, such as 10%")
    return float(number[1]) / 100


def _start(config: Config, app: str, options: argparse.Namespace) -> Config:
    from serve_app.rollout.model_files import find_unfit_policies  # imports the services

    mode: canary.Mode = "shadow" if options.shadow else "canary"
    default = 1.0 if options.shadow else 0.1
    share = default if options.share is None else options.share
    changed = canary.start_canary(config, app, options.file, mode, share)
    if faults := list(find_unfit_policies(changed)):
        raise CommandError("\n".join(faults))
    return changed


def _share(config: Config, app: str, options: argparse.Namespace) -> Config:
    return canary.set_share(config, app, options.share)


def _deploy(change: Change, options: argparse.Namespace) -> None:
    instance = None if options.cluster else running(options)
    silent = replace(rollout_of(options, instance), report=lambda names, waiting, seconds: None)
    config = silent.adjust(
        lambda config: change(config, canary.inference_app(config, options.app), options)
    )
    user_config = canary.user_config_of(config, canary.inference_app(config, options.app))
    results.print("Done.", style="bold green")
    results.print(f"{_describe(user_config)}\n{_HINT}")
    results.print(yaml.safe_dump({"user_config": user_config}, sort_keys=False))
    if instance:
        print_problems(instance, config)


def _describe(user_config: canary.UserConfig) -> str:
    served = user_config.get("agent_path") or "the policy of MAPPO_AGENT_PATH"
    if not (running := canary.canary_of(user_config)):
        return f"{served} answers every run."
    verb = "answers" if running["mode"] == "canary" else "is a shadow of it in"
    share = f"{running['share'] * 100:g}% of the runs"
    return f"{served} is in service, and {running['agent_path']} {verb} {share}."


def _status(options: argparse.Namespace) -> None:
    if options.cluster:
        dashboard, releases = cluster_of(options), releases_of_cluster(options.cluster)
    else:
        instance = running(options)
        dashboard, releases = instance.dashboard, releases_of(instance)
    config = releases.current()
    if config is None:
        raise CommandError("Nothing is deployed.")
    app = canary.inference_app(config, options.app)
    user_config = canary.user_config_of(config, app)
    metrics = _read_metrics(_scrape_nodes(dashboard, warn), app)
    if options.json:
        rows = {name: _figures(metrics[each]) for name, each in _policies_of(user_config).items()}
        write_json({"user_config": user_config, "policies": rows})
        return
    results.print(_describe(user_config))
    results.print(_comparison_table(user_config, metrics))


_PREFIX = "ray_inference_"
_TARGETS = "/api/prometheus/sd"

Policy = tuple[str, str]  # primary or candidate, and the name of its hidden states

# By metric, since Ray started: its agent of a node keeps what an ended replica has reported.
Sums = defaultdict[str, float]


def _read_metrics(pages: Iterable[str], app: str) -> defaultdict[Policy, Sums]:
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


def _scrape_nodes(dashboard: RayDashboard, report: Callable[[str], None]) -> Iterator[str]:
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


def _policies_of(user_config: Mapping[str, Any]) -> dict[str, Policy]:
    """Return each configured policy, by its place: in service, canary or shadow."""
    policies: dict[str, Policy] = {"in service": ("primary", user_config.get("states") or "")}
    if canary := user_config.get("canary"):
        policies[canary["mode"]] = ("candidate", canary["states"])
    return policies


def _figures(sums: Sums) -> dict[str, float | None]:
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


def _comparison_table(user_config: Mapping[str, Any], metrics: defaultdict[Policy, Sums]) -> Table:
    """Return a table with a column for each configured policy."""
    columns = _policies_of(user_config)
    table = Table("since Ray started", *columns)
    shown = [_figures(metrics[policy]) for policy in columns.values()]
    for name in shown[0]:
        table.add_row(name.replace("_", " "), *(_in_words(each[name]) for each in shown))
    return table


def _in_words(figure: float | None) -> str:
    if figure is None:
        return "-"
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:.3f}"
