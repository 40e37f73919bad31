"""Measures what open consoles cost the inference route, on a Ray cluster of its own.

The same replica is loaded while nobody looks, while one browser looks at the very run that is
loaded, and while two hundred ask to look, of which none reads; the three in turn, and compared
within each round: requests per second of connections that ask all the time, and the CPU time that
all processes of the system take for a request. Other work on a machine disturbs the latter less,
and least where requests are paced: as many of them share what is done whatever comes.

    make bench-console ARGS="--rounds 7 --seconds 3"
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

import httpx

from load_tests.bench import harness
from load_tests.bench.cpu import Cost, cpu_seconds, print_costs, whole_cost_of
from load_tests.bench.harness import PairedBar, console
from load_tests.harness.shipped import shipped_application
from load_tests.harness.wrk import Samples, Target
from serve_app.processes.instance import Instance

ALONE, ONE, MANY = "nobody looks", "one console", "200 that do not read"
FULL, PACED = 16, 128  # connections
SCRIPTS = {FULL: "predict_action.lua", PACED: "predict_action_paced.lua"}
CONSOLES = 200
IDLE_S = 10.0
KINDS = {
    "ray::ServeReplica:inference": "inference",
    "ray::ServeReplica:console": "console",
    "ray::ConsoleFeed": "feed",
    "ray::ServeController": "controller",
    "ray::HiddenStates": "state actor",
    "haproxy": "HAProxy",
}
SETTLE_S = 4.0  # before and after somebody looks: the console lingers
RUN = "default"  # of the wrk script
BARS = [
    PairedBar(name, figure, n, ALONE, comparison, ratio)
    for name in (ONE, MANY)
    for figure, n, comparison, ratio in (
        ("requests_per_s", FULL, ">=", 0.99),
        ("cpu_us", FULL, "<=", 1.01),
        ("cpu_us", PACED, "<=", 1.01),
    )
]


def main() -> int:
    return harness.run(__doc__, 26000, BARS, _measure)


def _measure(options: argparse.Namespace) -> Samples:
    applications = [
        shipped_application("inference"),
        shipped_application("console", args={"login": False}),
    ]
    with harness.serving(options.port_base, applications) as (instance, _):
        samples: dict[tuple[str, int], list[Cost]] = {}
        time.sleep(SETTLE_S)  # the feed starts beside the console
        console.print(_idle(instance))
        url = f"{instance.base_url}/predict_action"
        for number in range(options.rounds):
            for name, looking in LOOKING.items():
                with looking(instance):
                    time.sleep(SETTLE_S)
                    for n, script in SCRIPTS.items():
                        target = Target(name, url, script)
                        seconds = options.seconds * (2 if n == PACED else 1)
                        cost = whole_cost_of(instance, target, n, seconds, KINDS)
                        samples.setdefault((name, n), []).append(cost)
                time.sleep(SETTLE_S)
            console.print(f"round {number + 1}/{options.rounds}")
    print_costs(samples)
    _print_shares(samples)
    return {key: [*costs] for key, costs in samples.items()}


def _print_shares(samples: Mapping[tuple[str, int], list[Cost]]) -> None:
    """Print what each part takes more than while nobody looks, of a core: medians of the rounds.

    The rest of Ray is left out: it knows nothing of consoles, and differs by more from run to run.
    """
    for name in (ONE, MANY):
        pairs = list(zip(samples[name, PACED], samples[ALONE, PACED], strict=True))
        more = {
            part: statistics.median(
                _percent(each, part) - _percent(alone, part) for each, alone in pairs
            )
            for part in KINDS.values()
        }
        parts = "  ".join(f"{part} {share:+.2f}" for part, share in more.items())
        console.print(f"{name}, paced: {sum(more.values()):+.2f} % of a core:  {parts}")


def _percent(cost: Cost, part: str) -> float:
    return cost.parts_us.get(part, 0) * cost.requests_per_s / 1e4


@contextlib.contextmanager
def _nobody(instance: Instance) -> Iterator[None]:
    yield


@contextlib.contextmanager
def _one(instance: Instance) -> Iterator[None]:
    """Look as the page does, one stream after the other."""
    ended = threading.Event()

    def look() -> None:
        with httpx.Client(base_url=instance.base_url, timeout=10) as client:
            while not ended.is_set():
                with client.stream("GET", "/console/stream", params={"run": RUN}) as answer:
                    for _ in answer.iter_lines():
                        if ended.is_set():
                            return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)


@contextlib.contextmanager
def _many(instance: Instance) -> Iterator[None]:
    with contextlib.ExitStack() as opened:
        for _ in range(CONSOLES):
            address = ("127.0.0.1", instance.ports.front)
            browser = opened.enter_context(socket.create_connection(address, timeout=10))
            browser.sendall(f"GET /console/stream?run={RUN} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        yield


LOOKING: dict[str, Callable[[Instance], AbstractContextManager[None]]] = {
    ALONE: _nobody,
    ONE: _one,
    MANY: _many,
}


def _idle(instance: Instance) -> str:
    """Say what the console and its feed take while nobody looks."""
    before, began = cpu_seconds(instance, KINDS), time.monotonic()
    time.sleep(IDLE_S)
    after, seconds = cpu_seconds(instance, KINDS), time.monotonic() - began
    shares = (
        f"{part} {100 * (taken - before[part]) / seconds:.1f} %" for part, taken in after.items()
    )
    return "idle, of a core: " + ", ".join(shares)


if __name__ == "__main__":
    sys.exit(main())
