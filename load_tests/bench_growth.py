"""Measures the inference service as its hidden states become many, over HTTP.

A Ray cluster of its own with one replica and one state actor, as shipped. At each number of states:
latency of requests over one connection for random ones of them; memory that the replica and the
state actor have for themselves (USS); and after ``kill -9`` of the state actor, the seconds until
a step of a state that the replica holds is answered, and until one of a state that is new.

    make bench-growth ARGS="--docs"
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from greenwave.client import AsyncClient, GreenwaveError, Retries, Timeouts
from load_tests.bench import harness
from load_tests.bench.comparison.markdown import replace_section, table
from load_tests.bench.growth_plot import Size, plot
from load_tests.bench.harness import console
from load_tests.harness.shipped import ROOT, shipped_application
from load_tests.harness.wrk import BenchmarkError, Target, run_wrk
from models.junctions import JUNCTIONS
from serve_app.processes.instance import Instance
from serve_app.processes.process_tags import read_command

PAGE, SECTION, PICTURE = ROOT / "docs" / "speed.md", "make bench-growth", "growth.png"
REPLICA, ACTOR = "ray::ServeReplica:inference", "ray::HiddenStates"
OBSERVED = [(name, [0.0] * junction.obs_size) for name, junction in JUNCTIONS.items()]
AT_ONCE = 16
COPIED_S = 3.0  # after which the store has every state
PATIENCE_S = 60.0


def main() -> int:
    options = _options()
    application = shipped_application("inference", args={"max_states": max(options.states) + 10})
    sizes: list[Size] = []
    try:
        with harness.serving(options.port_base, [application]) as (instance, _):
            for size in _grow(instance, options.states, options.seconds):
                console.print(str(size))
                sizes.append(size)
    except (BenchmarkError, GreenwaveError) as error:
        console.print(str(error), style="red", markup=False)
        return 1
    _write(sizes, options.folder, docs=options.docs)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--states",
        type=_numbers,
        default=[5, 50, 500, 5_000, 50_000, 100_000],
        help="numbers of states, rising multiples of five (default: 5 to 100000)",
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="of one load (%(default)s)")
    parser.add_argument("--port-base", type=int, default=25000)
    parser.add_argument("--folder", type=Path, default=ROOT / "reports" / "growth")
    parser.add_argument(
        "--docs", action="store_true", help="put table and picture into docs/ instead"
    )
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    numbers = [int(part) for part in parts if part.isdecimal()]
    rising = sorted({number for number in numbers if number > 0 and number % 5 == 0})
    if len(rising) != len(parts) or rising != numbers:
        raise argparse.ArgumentTypeError(f"{text!r}: rising multiples of five are wanted")
    return rising


def _grow(instance: Instance, wanted: Sequence[int], seconds: float) -> Iterator[Size]:
    """Yield what is measured at each number of states."""
    runs = 0
    for states in wanted:
        asyncio.run(_make(instance.base_url, range(runs + 1, states // 5 + 1)))
        runs = states // 5
        os.environ["RUNS"] = str(runs)
        target = Target("inference", f"{instance.base_url}/predict_action", "predict_of_many.lua")
        sample = run_wrk(target, 1, seconds)
        time.sleep(COPIED_S)
        replica, actor = (_process(instance, title) for title in (REPLICA, ACTOR))
        replica_mb, actor_mb = (each.memory_full_info().uss / 1e6 for each in (replica, actor))
        first_step_s, new_state_s = asyncio.run(_kill_and_wait(instance.base_url, actor, runs))
        yield Size(
            states, sample.p50_ms, sample.p99_ms, replica_mb, actor_mb, first_step_s, new_state_s
        )


async def _make(url: str, runs: range) -> None:
    """Step each junction of these runs once."""
    left = iter(runs)

    async def make(client: AsyncClient) -> None:
        for number in left:
            await client.inference.run(f"run-{number}").predict_many(OBSERVED)

    async with AsyncClient(url) as client:
        await asyncio.gather(*(make(client) for _ in range(AT_ONCE)))


async def _kill_and_wait(url: str, actor: psutil.Process, runs: int) -> tuple[float, float]:
    """Return the seconds until a step of the last run is answered, and until one of a new run."""
    timeouts = Timeouts(attempt_s=PATIENCE_S, total_s=PATIENCE_S)

    async def answered(client: AsyncClient, run: str) -> float:
        while time.monotonic() - killed < PATIENCE_S:
            try:
                await client.inference.run(run).predict(*OBSERVED[0])
            except GreenwaveError:
                await asyncio.sleep(0.01)
            else:
                return time.monotonic() - killed
        raise BenchmarkError(f"no step was answered within {PATIENCE_S:g} s of the kill")

    async with AsyncClient(url, timeouts=timeouts, retries=Retries(attempts=1)) as client:
        killed = time.monotonic()
        actor.kill()
        held, new = f"run-{runs}", f"new-{runs}"
        first_step_s, new_state_s = await asyncio.gather(
            answered(client, held), answered(client, new)
        )
        await client.inference.run(new).reset()
    return first_step_s, new_state_s


def _process(instance: Instance, title: str) -> psutil.Process:
    for process in instance.processes():
        if read_command(process)[0].startswith(title):
            return process
    raise BenchmarkError(f"no process is called {title}")


def _write(sizes: Sequence[Size], folder: Path, *, docs: bool) -> None:
    header = ["hidden states", "p50 ms", "p99 ms", "replica, MB", "state actor, MB"]
    header += ["first step after the kill, s", "first new state, s"]
    rows = [
        [
            f"{size.states:,}",
            f"{size.p50_ms:.2f}",
            f"{size.p99_ms:.2f}",
            f"{size.replica_mb:.0f}",
            f"{size.actor_mb:.0f}",
            f"{size.first_step_s:.2f}",
            f"{size.new_state_s:.2f}",
        ]
        for size in sizes
    ]
    text = (
        table(header, rows)
        + f"\n\n![Latency, memory and recovery over the number of hidden states]({PICTURE})"
    )
    folder = PAGE.parent if docs else folder
    folder.mkdir(parents=True, exist_ok=True)
    plot(folder / PICTURE, sizes)
    page = PAGE if docs else folder / "growth.md"
    page.write_text(replace_section(page.read_text(), SECTION, text) if docs else text)
    console.print(text, markup=False)
    console.print(f"written: {page}")


if __name__ == "__main__":
    sys.exit(main())
