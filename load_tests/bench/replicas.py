"""Measures the inference service with several replicas or policies beside one of each.

The load is the same for all: 200 runs of five junctions in a random order. Deployments: three
replicas with each run at one of them, as shipped; three that take turns, as Serve does by default;
three applications of one replica that share nothing; and one replica with a second policy, as a
shadow of every run, or as a canary that this load is not part of.

    make bench ARGS="replicas --only three,apart --rounds 5"
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
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
from load_tests.bench.report import Results, load_tables
from load_tests.harness.system import application
from models.policy.form import SHIPPED_POLICY

CANARY = {"agent_path": str(SHIPPED_POLICY), "states": "bench"}
SHADOW = {"canary": {**CANARY, "mode": "shadow", "share": 1.0}}
HALF = {"canary": {**CANARY, "mode": "canary", "share": 0.5}}
PARTS: Mapping[str, tuple[str, Sequence[dict[str, Any]]]] = {
    "one": ("one replica", [application("inference", "/")]),
    "three": ("three, routed by run", [application("inference-three", "/three", 3)]),
    "turns": ("three, in turn", [application("turns", "/turns", 3)]),
    "apart": ("three applications", [application(f"apart-{n}", f"/apart-{n}") for n in (1, 2, 3)]),
    "shadow": ("one, with a shadow", [application("inference-shadow", "/shadow", 1, SHADOW)]),
    "canary": ("one, with a canary", [application("inference-canary", "/canary", 1, HALF)]),
}
"""By part: the subject, and its applications. One must be at the root, or the edge takes Serve for
down."""
LOADS = (ONE, SIXTEEN)
REQUESTS = ("predict", "runs=200")


def _measure(options: argparse.Namespace, results: Results) -> None:
    parts = ["one", *(each for each in options.only if each != "one")]
    applications = [each for part in parts for each in PARTS[part][1]]
    with system_of(options, *applications) as system:
        processes = system.instance.processes
        idle = idle_cores(processes)
        targets = []
        for part in parts:
            subject, (first, *others) = PARTS[part]
            prefix, requests = first["route_prefix"].rstrip("/"), list(REQUESTS)
            if others:
                prefixes = ",".join(each["route_prefix"] for each in (first, *others))
                prefix, requests = "", [*REQUESTS, f"prefixes={prefixes}"]
            url = f"{system.url}{prefix}/predict_action"
            targets.append(Target(subject, url, tuple(requests), processes, idle=idle))
        take_turns(targets, LOADS, options, results)


BENCHMARK = Benchmark(
    parts=list(PARTS),
    measure=_measure,
    tables=load_tables([load.name for load in LOADS]),
)
