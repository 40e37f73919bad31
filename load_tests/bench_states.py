"""Measures what hidden states cost where they move: between replicas, and after a kill.

A Ray cluster of its own with one real state actor, on SQLite and on Redis, and actors that hold
states as replicas do, without HTTP and without the policy:

- move: from asking for a state that another replica owns to owning it;
- commit: from a step to the acknowledgement, with the state actor's memory or (``durable``) with
  the store as what acknowledges;
- recovery: from ``kill -9`` of the state actor to the acknowledgement of the first step after it,
  and to the first state that moves.

    make bench-states ARGS="--states 50000,100000"
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import ray
from deployments.stateful.garbage import look_for_garbage_seldom
from ray.actor import ActorHandle
from rich.table import Table

from deployments.inference.options import InferenceOptions
from deployments.ray_private.core import SERVE_NAMESPACE, read_actor_process
from deployments.stateful.layout import Partition, agree_on_layout, table_of
from deployments.stateful.protocol import Key, StateError
from deployments.stateful.ray.actor import OpenStore, find_authority
from deployments.stateful.ray.client import RayAuthority
from deployments.stateful.replica.held_states import Unanswered
from deployments.stateful.replica.leases import StateLeases
from deployments.store import open_store
from load_tests.bench.harness import console
from load_tests.harness.redis_server import RedisServer
from models.policy.form import HIDDEN_DIM

MOVE_BAR_MS = 5.0
RECOVERY_BAR_S = 5.0
_AT_ONCE = 200


class Holder:
    """Owns states as a replica does."""

    async def start(
        self, name: str, app: str, options: InferenceOptions, open_it: OpenStore, seat: Partition
    ) -> None:
        look_for_garbage_seldom()
        authority = RayAuthority(lambda: find_authority(app, options, open_it, seat))
        self.leases = StateLeases(authority, name, HIDDEN_DIM, options, seat.generation)
        await self.leases.start()

    async def acquire(self, key: Key) -> float:
        """Become the owner of a state, step it, and return the seconds that it took."""
        started = time.perf_counter()
        await self.leases.acquire(key)
        took = time.perf_counter() - started
        self.step(key)
        return took

    async def acquire_many(self, run: str, first: int, last: int) -> None:
        """Own states ``first`` to ``last`` of a run."""
        for start in range(first, last, _AT_ONCE):
            keys = [_key(run, n) for n in range(start, min(start + _AT_ONCE, last))]
            await asyncio.gather(*map(self.acquire, keys))

    def step(self, key: Key) -> bool:
        state = self.leases.owned(key)
        if state is None:
            return False
        self.leases.advance(state, np.ones(HIDDEN_DIM, np.float32))
        return True

    async def commit(self, key: Key) -> float:
        """Step a state and return the seconds until that is acknowledged."""
        while True:
            while not self.step(key):
                await self.leases.acquire(key)
            state = self.leases.owned(key)
            assert state is not None
            started = time.perf_counter()
            acknowledged = asyncio.get_running_loop().create_future()
            state.unanswered.append(Unanswered(state.version.step, acknowledged, None))
            with contextlib.suppress(StateError):  # it was taken away; again, then
                await acknowledged
                return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moves", type=int, default=1000, help="at least 2 (%(default)s)")
    parser.add_argument(
        "--states", default="50000,100000", help="numbers of states to recover (%(default)s)"
    )
    parser.add_argument("--stores", default="sqlite,redis", help="sqlite, redis (%(default)s)")
    options = parser.parse_args()
    if unknown := set(options.stores.split(",")) - {"sqlite", "redis"}:
        parser.error(f"no such store: {', '.join(sorted(unknown))}")
    if options.moves < 2 or not options.states.replace(",", "").isdigit():
        parser.error("--moves and --states take positive numbers")
    # the actors find the project as this process does
    ray.init(
        address="local",
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        namespace=SERVE_NAMESPACE,
        runtime_env={"env_vars": {"PYTHONPATH": os.environ.get("PYTHONPATH", os.getcwd())}},
    )
    table = Table("store", "what", "p50", "p99", "bar")
    fine = True
    with tempfile.TemporaryDirectory(prefix="gwb-states-") as folder:
        for store in options.stores.split(","):
            server = RedisServer(Path(folder) / "redis").start() if store == "redis" else None
            url = server.url if server else f"sqlite:///{folder}/states.db"
            try:
                fine &= asyncio.run(_measure(table, options, store, partial(open_store, url)))
            finally:
                if server:
                    server.stop()
    ray.shutdown()
    console.print(table)
    return 0 if fine else 1


async def _measure(
    table: Table, options: argparse.Namespace, store: str, open_it: OpenStore
) -> bool:
    moves, commits = await _moves_and_commits(options.moves, "default", open_it)
    _, durable = await _moves_and_commits(50, "durable", open_it, durable=True)
    fine = statistics.median(moves) * 1000 <= MOVE_BAR_MS
    table.add_row(store, "move of a state", *_ms(moves), f"p50 {MOVE_BAR_MS:.0f} ms")
    table.add_row(store, "commit, acknowledged by the state actor", *_ms(commits), "")
    table.add_row(store, "commit, acknowledged by the store", *_ms(durable), "")
    for n in map(int, options.states.split(",")):
        first_step, first_move = await _recover(n, open_it)
        fine &= first_move <= RECOVERY_BAR_S
        row = f"{n:,} states, state actor killed: first step, first move"
        table.add_row(store, row, f"{first_step:.2f} s", f"{first_move:.2f} s", "5 s")
        console.print(f"{store}: recovered {n:,} states in {first_move:.2f} s")
    return fine


async def _join(
    app: str, open_it: OpenStore, *names: str, **changes: object
) -> tuple[ActorHandle, list[ActorHandle]]:
    """Start a state actor and holders beside it."""
    settings = InferenceOptions().model_copy(update={"max_states": 1_000_000, **changes})
    store = open_it()
    layout = await agree_on_layout(store, table_of(app), settings)
    await store.close()
    holders = [
        ray.remote(Holder).options(num_cpus=0, max_concurrency=1000, name=f"{app}-{name}").remote()
        for name in names
    ]
    for holder, name in zip(holders, names, strict=True):
        await holder.start.remote(f"{app}-{name}", app, settings, open_it, layout.partitions[0])
    return find_authority(app, settings, open_it, layout.partitions[0]), holders


async def _moves_and_commits(
    n_moves: int, app: str, open_it: OpenStore, **changes: object
) -> tuple[list[float], list[float]]:
    actor, (first, second) = await _join(app, open_it, "a", "b", **changes)
    keys = [Key("run", str(n)) for n in range(20)]
    await asyncio.gather(*(first.acquire.remote(key) for key in keys))
    moves = []
    for n in range(n_moves):
        to = second if (n // len(keys)) % 2 == 0 else first
        moves.append(await to.acquire.remote(keys[n % len(keys)]))
    commits = [await first.commit.remote(keys[0]) for _ in range(300)]
    for each in (actor, first, second):
        ray.kill(each)
    return moves, commits


async def _recover(n: int, open_it: OpenStore) -> tuple[float, float]:
    app = f"recover-{n}"
    actor, (owner, other) = await _join(app, open_it, "owner", "other")
    console.print(f"Making {n:,} states ...")
    await owner.acquire_many.remote("run", 0, n)
    await owner.commit.remote(_key("run", 0))
    await asyncio.sleep(3)  # a period of copies
    _, pid = read_actor_process(actor._actor_id.hex())
    killed = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    step = asyncio.ensure_future(owner.commit.remote(_key("run", 0)))
    move = asyncio.ensure_future(other.acquire.remote(_key("run", 7)))
    await step
    first_step = time.perf_counter() - killed
    await move
    first_move = time.perf_counter() - killed
    for each in (actor, owner, other):
        ray.kill(each)
    return first_step, first_move


def _key(run: str, number: int) -> Key:
    """Return one of the states of runs of five junctions."""
    return Key(f"{run}{number // 5}", f"junction{number % 5}")


def _ms(samples: list[float]) -> tuple[str, str]:
    p99 = statistics.quantiles(samples, n=100)[98]
    return f"{statistics.median(samples) * 1000:.2f} ms", f"{p99 * 1000:.2f} ms"


if __name__ == "__main__":
    sys.exit(main())
