"""Measures serving as networks grow: made-up cities with untrained policies that see their agents.

In process: from the files to a policy that steps, and predictions per second, one at a time and in
batches of 256 at most. Over HTTP, on a Ray cluster of its own with one replica as shipped: one
round of all junctions through /predict_actions, a thousand in a call at most, one call after the
other; and what the replica and the state actor have for themselves (USS) before and after. All
junctions are of one run.

    make bench-networks ARGS="--docs"
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import psutil

from load_tests.bench import harness
from load_tests.bench.comparison.markdown import replace_section, table
from load_tests.bench.harness import console
from load_tests.bench.made_up_city import made_up_city
from load_tests.harness.shipped import ROOT, shipped_application
from load_tests.harness.wrk import BenchmarkError
from models.networks.file import network_as_json
from models.networks.network import Network, network_of, read_network
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import InputLayout
from models.policy.step import PolicyStep
from models.policy.untrained import save_untrained
from serve_app.processes.instance import Instance
from serve_app.processes.process_tags import read_command

PAGE, SECTION = ROOT / "docs" / "networks.md", "make bench-networks"
OWNERS = "ray::ServeReplica:inference", "ray::HiddenStates"
MAX_ITEMS, MAX_BATCH = 1000, 256
COPIED_S = 3.0  # after which the store has every state


@dataclass(frozen=True)
class Figures:
    """What was measured of one city."""

    junctions: int
    start_s: float
    alone_per_s: float
    batched_per_s: float
    deploy_s: float
    round_ms: float
    memory_mb: float
    per_junction_kb: float

    @property
    def cells(self) -> list[str]:
        growth = f"{self.per_junction_kb:.1f}" if self.junctions >= MAX_ITEMS else "-"
        return [
            f"{self.junctions:,}",
            f"{self.start_s * 1000:.0f}",
            f"{self.alone_per_s:,.0f}",
            f"{self.batched_per_s:,.0f}",
            f"{self.deploy_s:.1f}",
            f"{self.round_ms:.1f}",
            f"{self.junctions / self.round_ms * 1000:,.0f}",
            f"{self.memory_mb:.0f}",
            growth,
        ]


HEADER = [
    "junctions",
    "files to policy, ms",
    "predictions/s alone",
    "in batches",
    "deploy, s",
    "one round over HTTP, ms",
    "predictions/s",
    "replica and state actor, MB",
    "kB for each junction",
]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[5, 21, 10_000])
    parser.add_argument("--rounds", type=int, default=20, help="of HTTP (%(default)s)")
    parser.add_argument("--port-base", type=int, default=25500)
    parser.add_argument("--docs", action="store_true", help="put the table into docs/networks.md")
    options = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":  # NumPy reads it at import
        os.execve(sys.executable, sys.orig_argv, os.environ | {"OMP_NUM_THREADS": "1"})
    try:
        measured = [_measure(n, options) for n in options.sizes]
    except (BenchmarkError, httpx.HTTPError) as error:
        console.print(str(error), style="red", markup=False)
        return 1
    text = table(HEADER, [each.cells for each in measured])
    console.print(text, markup=False)
    if options.docs:
        PAGE.write_text(replace_section(PAGE.read_text(), SECTION, text))
    return 0


def _measure(n: int, options: argparse.Namespace) -> Figures:
    with tempfile.TemporaryDirectory(prefix="gw-city-") as folder:
        files = Path(folder) / "city.json", Path(folder) / "agent.th"
        city = made_up_city(n)
        files[0].write_text(network_as_json(city))
        save_untrained(files[1], network_of(city))
        started = time.perf_counter()
        network = read_network(files[0])
        policy = PolicyStep.load(files[1], network)
        start_s = time.perf_counter() - started
        alone_per_s = _steps_per_s(policy, network, 1)
        batched_per_s = _steps_per_s(policy, network, MAX_BATCH)
        over_http = _over_http(network, files, options)
        return Figures(n, start_s, alone_per_s, batched_per_s, *over_http)


def _steps_per_s(policy: PolicyStep, network: Network, batch: int, seconds: float = 2.0) -> float:
    """Return the predictions per second of what the stepper does with a batch."""
    chance, layout = np.random.default_rng(0), InputLayout(network)
    size = min(batch, network.n_agents)
    agents = chance.choice(network.n_agents, size, replace=False).tolist()
    observations = [chance.random(network.obs_sizes[agent]).tolist() for agent in agents]
    hidden, steps = np.zeros((size, HIDDEN_DIM), np.float32), 0
    started = time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        inputs = layout.encode(agents, observations)
        hidden = policy(inputs, hidden, network.unavailable[agents]).hidden
        steps += size
    return steps / elapsed


def _over_http(
    network: Network, files: Sequence[Path], options: argparse.Namespace
) -> tuple[float, float, float, float]:
    """Return seconds to deploy, milliseconds of a round, MB, and kB for each junction."""
    args = {"network": str(files[0]), "agent_path": str(files[1])}
    inference = shipped_application("inference", args=args)
    with (
        harness.serving(options.port_base, [inference]) as (instance, deploy_s),
        httpx.Client(base_url=instance.base_url, timeout=60) as client,
    ):
        before = _memory(instance)
        rounds = [_round(client, network) for _ in range(options.rounds)]
        time.sleep(COPIED_S)
        after = _memory(instance)
    growth_kb = (after - before) / network.n_agents / 1e3
    return deploy_s, statistics.median(rounds) * 1000, after / 1e6, growth_kb


def _round(client: httpx.Client, network: Network) -> float:
    """Return the seconds from the first call's start to the last one's answer."""
    items = [
        {"junction_id": each.id, "obs_data": [1.0, *[0.25] * (each.obs_size - 1)]}
        for each in network.junctions.values()
    ]
    starts = range(0, len(items), MAX_ITEMS)
    calls = [{"items": items[start : start + MAX_ITEMS]} for start in starts]
    started = time.perf_counter()
    for body in calls:
        answers = client.post("/predict_actions", json=body).raise_for_status().json()["items"]
        if any("error" in each for each in answers):
            raise BenchmarkError(f"a junction was not answered: {answers[:1]}")
    return time.perf_counter() - started


def _memory(instance: Instance) -> int:
    """Return the bytes that the replica and the state actor have for themselves."""
    return sum(each.memory_full_info().uss for each in _owners(instance))


def _owners(instance: Instance) -> Iterator[psutil.Process]:
    for process in instance.processes():
        if read_command(process)[0].startswith(OWNERS):
            yield process


if __name__ == "__main__":
    sys.exit(main())
