"""Measures the inference service with several replicas or policies beside one of each.

The load is the same for all: 200 runs of five junctions in a random order. Deployments: three
replicas with each run at one of them, as shipped; three that take turns, as Serve does by default;
three applications of one replica that share nothing; and one replica with a second policy, as a
shadow of every run, or as a canary that this load is not part of.

    make bench ARGS="replicas --only three,apart --rounds 5"
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from load_tests.bench.harness import (
    ONE,
    SIXTEEN,
    Benchmark,
    Target,
    idle_cores,
    system_of,
    take_turns,
)
from load_tests.bench.report import Column, Results, load_tables
from load_tests.harness.shipped import shipped_application
from models.policy.form import SHIPPED_POLICY

ALONE, THREE, TURNS = "one replica", "three, routed by run", "three, in turn"
APART, SHADOW, CANARY = "three applications", "one, with a shadow", "one, with a canary"
PIECES = ("apart-1", "apart-2", "apart-3")
APPLICATIONS: Mapping[str, tuple[str, str, int]] = {
    "one": (ALONE, "inference", 1),
    "three": (THREE, "inference-three", 3),
    "turns": (TURNS, "turns", 3),
    "shadow": (SHADOW, "inference-shadow", 1),
    "canary": (CANARY, "inference-canary", 1),
}
"""By part: the subject, the application's name, and its replicas."""
CANARIES = {
    "shadow": {"mode": "shadow", "share": 1.0},
    "canary": {"mode": "canary", "share": 0.5},
}
LOADS = (ONE, SIXTEEN)
REQUESTS = ("predict", "runs=200")
KINDS = ("HAProxy", "replicas", "state actors")


def _measure(options: argparse.Namespace, results: Results) -> None:
    parts = ["one", *(each for each in options.only if each != "one")]
    applications = [_application(part) for part in parts if part in APPLICATIONS]
    if "apart" in parts:
        applications += [_named(piece, 1) for piece in PIECES]
    with system_of(options, *applications) as system:
        processes = system.instance.processes
        idle = idle_cores(processes)
        targets = []
        for part in parts:
            if part == "apart":
                prefixes = ",".join(f"/{piece}" for piece in PIECES)
                url, requests = f"{system.url}/predict_action", (*REQUESTS, f"prefixes={prefixes}")
                targets.append(Target(APART, url, requests, processes, idle=idle))
            else:
                subject, name, _ = APPLICATIONS[part]
                url = f"{system.url}{_prefix(name)}/predict_action"
                targets.append(Target(subject, url, REQUESTS, processes, idle=idle))
        take_turns(targets, LOADS, options, results)


def _application(part: str) -> dict[str, Any]:
    _, name, replicas = APPLICATIONS[part]
    if part not in CANARIES:
        return _named(name, replicas)
    canary = {"agent_path": str(SHIPPED_POLICY), "states": "bench", **CANARIES[part]}
    return _named(name, replicas, user_config={"canary": canary})


def _named(name: str, replicas: int, **changes: Any) -> dict[str, Any]:
    prefix = _prefix(name) or "/"
    return shipped_application(
        "inference", called=name, prefix=prefix, replicas=replicas, **changes
    )


def _prefix(name: str) -> str:
    """Return where an application is; one must be at the root, or the edge takes Serve for down."""
    return "" if name == "inference" else f"/{name}"


_TABLES = load_tables(
    [load.name for load in LOADS],
    *(Column(f"of it {kind} at 16", f"cpu_ms {kind}", SIXTEEN.name, 2) for kind in KINDS),
)
BENCHMARK = Benchmark(
    name="replicas",
    about=__doc__,
    parts=["one", "three", "turns", "apart", "shadow", "canary"],
    measure=_measure,
    tables=_TABLES,
)
