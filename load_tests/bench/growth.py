"""Measures what becomes slower as hidden states or junctions become many.

states     one replica and one state actor as shipped: latency over one connection for random
           states, memory (USS) and the table's, and after ``kill -9`` of both at once the seconds
           until a step is answered
junctions  generated networks with untrained policies: one round of all junctions through
           /predict_actions, up to 1,000 in a call, and memory (USS)

    make bench ARGS="growth --only states"
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import psutil

from greenwave.client import AsyncClient, GreenwaveError, Retries, Timeouts
from lab.train.untrained import save_untrained
from load_tests.bench.harness import ONE, Benchmark, BenchmarkError, Target, measure_into, system_of
from load_tests.bench.report import Column, Results
from load_tests.harness.processes import own_bytes
from load_tests.harness.shipped import shipped_application
from load_tests.harness.states_folder import used_bytes
from load_tests.harness.system import System
from models.networks.file import network_as_json
from models.networks.form import JunctionEntry, Lane, NetworkFile, Phase
from models.networks.network import Network, network_of
from models.networks.shipped import JUNCTIONS

N_STATES = (5, 10_000, 100_000)
N_JUNCTIONS = (5, 21, 10_000)
REPLICA, STATE_ACTOR = ("ray::ServeReplica:inference",), ("ray::StateActor",)
OBSERVED = [(name, [0.0] * junction.obs_size) for name, junction in JUNCTIONS.items()]
CONCURRENCY = 16
COPIED_S = 3.0  # after which the store has every state
TIMEOUT_S = 60.0
MAX_ITEMS = 1000


def _measure(options: argparse.Namespace, results: Results) -> None:
    if "states" in options.only:
        _measure_states(options, results)
    if "junctions" in options.only:
        _measure_junctions(options, results)


def _measure_states(options: argparse.Namespace, results: Results) -> None:
    inference = shipped_application("inference", args={"max_states": max(N_STATES) + 10})
    with system_of(options, inference) as system:
        made = 0
        for size in N_STATES:
            runs = max(1, size // len(JUNCTIONS))
            asyncio.run(_create_states(system.url, range(made + 1, runs + 1)))
            made = runs
            for _ in range(options.rounds):
                _measure_size(system, f"{size:,} hidden states", runs, options, results)


def _measure_size(
    system: System, subject: str, runs: int, options: argparse.Namespace, results: Results
) -> None:
    requests, processes = ("predict", f"runs={runs}"), system.instance.processes
    target = Target(subject, f"{system.url}/predict_action", requests, processes)
    measure_into(results, target, ONE, options.seconds)
    time.sleep(COPIED_S)
    figures = {
        "replica_mb": own_bytes(processes(), REPLICA) / 1e6,
        "actor_mb": own_bytes(processes(), STATE_ACTOR) / 1e6,
        "table_mb": used_bytes() / 1e6,
    }
    both = [*system.replicas("inference"), *system.state_actors()]
    back_s = asyncio.run(_kill_and_wait(system.url, both, runs))
    results.add(subject, {**figures, "back_s": back_s})


async def _create_states(url: str, runs: range) -> None:
    """Step each junction of these runs once."""
    left = iter(runs)

    async def create(client: AsyncClient) -> None:
        for number in left:
            await client.inference.run(f"run-{number}").predict_many(OBSERVED)

    async with AsyncClient(url) as client:
        await asyncio.gather(*(create(client) for _ in range(CONCURRENCY)))


async def _kill_and_wait(url: str, processes: Sequence[psutil.Process], runs: int) -> float:
    """Return the seconds until a step of the last run is answered."""
    timeouts = Timeouts(attempt_s=TIMEOUT_S, total_s=TIMEOUT_S)
    async with AsyncClient(url, timeouts=timeouts, retries=Retries(attempts=1)) as client:
        killed = time.monotonic()
        for process in processes:
            process.kill()
        while time.monotonic() - killed < TIMEOUT_S:
            try:
                await client.inference.run(f"run-{runs}").predict(*OBSERVED[0])
            except GreenwaveError:
                await asyncio.sleep(0.01)
            else:
                return time.monotonic() - killed
    raise BenchmarkError(f"No step was answered within {TIMEOUT_S:g} s of the kill.")


def _measure_junctions(options: argparse.Namespace, results: Results) -> None:
    for size in N_JUNCTIONS:
        with tempfile.TemporaryDirectory(prefix="gwb-network-") as folder:
            file, policy = Path(folder) / "network.json", Path(folder) / "agent.th"
            generated = generate_network(size)
            network = network_of(generated)
            file.write_text(network_as_json(generated))
            save_untrained(policy, network)
            args = {"network": str(file), "agent_path": str(policy)}
            inference = shipped_application("inference", args=args)
            with system_of(options) as system:
                deploy_s = system.deploy(inference)
                figures = _measure_rounds(system, network, options, results)
                results.add(f"{size:,} junctions", {"deploy_s": deploy_s, **figures})


def _measure_rounds(
    system: System, network: Network, options: argparse.Namespace, results: Results
) -> dict[str, float]:
    before = _memory_bytes(system)
    with httpx.Client(base_url=system.url, timeout=TIMEOUT_S) as client:
        for _ in range(options.rounds):
            seconds = _predict_all(client, network)
            figures = {"round_ms": seconds * 1000, "per_s": network.n_agents / seconds}
            results.add(f"{network.n_agents:,} junctions", figures, "round")
    time.sleep(COPIED_S)
    after = _memory_bytes(system)
    growth_kb = (after - before) / network.n_agents / 1e3
    per_junction = {"junction_kb": growth_kb} if network.n_agents >= MAX_ITEMS else {}
    return {"memory_mb": after / 1e6, **per_junction}


def _memory_bytes(system: System) -> int:
    return own_bytes(system.instance.processes(), REPLICA + STATE_ACTOR) + used_bytes()


def _predict_all(client: httpx.Client, network: Network) -> float:
    """Return the seconds from the first call's start to the last call's answer."""
    items = [
        {"junction_id": each.id, "obs_data": [1.0, *[0.25] * (each.obs_size - 1)]}
        for each in network.junctions.values()
    ]
    starts = range(0, len(items), MAX_ITEMS)
    bodies = [{"items": items[start : start + MAX_ITEMS]} for start in starts]
    started = time.perf_counter()
    for body in bodies:
        answers = client.post("/predict_actions", json=body).raise_for_status().json()["items"]
        if any("error" in each for each in answers):
            raise BenchmarkError(f"A junction was not answered: {answers[:1]}")
    return time.perf_counter() - started


def generate_network(n: int) -> NetworkFile:
    """Return a network of n junctions: the first as large as the largest one of the documents."""
    junctions = []
    for index in range(n):
        phases, lanes = (4, 14) if index == 0 else (2 + index % 3, 4 + index % 11)
        name = f"junction-{index}"
        junctions.append(
            JunctionEntry(
                id=name,
                agent_index=index,
                phases=(Phase(),) * phases,
                lanes=tuple(Lane(id=f"{name}_{lane}", capacity=20) for lane in range(lanes)),
            )
        )
    return NetworkFile(name=f"generated network of {n}", junctions=tuple(junctions))


_STATE_COLUMNS = [
    Column("p50 ms", "p50_ms", ONE.name, 2, versus_first=True),
    Column("p99 ms", "p99_ms", ONE.name, 2),
    Column("replica, MB", "replica_mb"),
    Column("state actor, MB", "actor_mb"),
    Column("table, MB", "table_mb"),
    Column("first step after the kill, s", "back_s", digits=2),
]
_JUNCTION_COLUMNS = [
    Column("deploy, s", "deploy_s", digits=1),
    Column("one round over HTTP, ms", "round_ms", "round", 1),
    Column("predictions/s", "per_s", "round", versus_first=True),
    Column("replica, state actor and table, MB", "memory_mb"),
    Column("kB for each junction", "junction_kb", digits=1),
]

BENCHMARK = Benchmark(
    parts=["states", "junctions"],
    measure=_measure,
    tables=[_STATE_COLUMNS, _JUNCTION_COLUMNS],
    rounds=3,
)
