"""Measures forecasts and loans beside the inference route, on one Ray cluster.

Loans are on SQLite, with every write synced to disk.

    make bench ARGS="forecasts-records --only density,flow --rounds 7"
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence

import httpx

from load_tests.bench.harness import (
    ONE,
    SIXTEEN,
    Benchmark,
    BenchmarkError,
    Target,
    system_of,
    take_turns,
)
from load_tests.bench.report import Results, load_tables
from load_tests.harness.shipped import shipped_application

LOADS = (ONE, SIXTEEN)
PARTS: Mapping[str, tuple[str, str, Sequence[str]]] = {
    "density": ("/density", "/predict", ["density"]),
    "flow": ("/flow", "/forecast", ["flow"]),
    "loans": ("/api/loans", "", ["fetch_loan", "create_loan"]),
}
"""By application: its prefix, a path below it, and the kinds of requests."""
FIRST_MOBILE, N_LOANS = 5_000_000_000, 1_000  # those that requests.lua fetches


def _measure(options: argparse.Namespace, results: Results) -> None:
    with tempfile.TemporaryDirectory(prefix="gwb-records-") as folder:
        store = {"STORE_URL": f"sqlite:///{folder}/records.db"}
        names = ("inference", *options.only)
        applications = [shipped_application(each, env=store) for each in names]
        with system_of(options, *applications) as system:
            processes = system.instance.processes
            inference = f"{system.url}/predict_action"
            targets = [Target("inference route", inference, ("predict",), processes)]
            for part in options.only:
                prefix, path, kinds = PARTS[part]
                url = system.url_of(prefix) + path
                targets += [Target(kind, url, (kind,), processes) for kind in kinds]
                if part == "loans":
                    _create_loans(url)
            take_turns(targets, LOADS, options, results)


def _create_loans(url: str) -> None:
    with httpx.Client(timeout=10) as client:
        for number in range(FIRST_MOBILE, FIRST_MOBILE + N_LOANS):
            answer = client.post(url, params={"mobileNumber": str(number)})
            if answer.status_code != 201:
                raise BenchmarkError(f"{url} answered {answer.status_code}: {answer.text}")


BENCHMARK = Benchmark(
    parts=list(PARTS),
    measure=_measure,
    tables=load_tables([load.name for load in LOADS]),
)
