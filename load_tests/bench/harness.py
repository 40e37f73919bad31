"""What the benchmarks share: a Serve cluster of their own, bare peers beside it, tables."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from load_tests.harness.shipped import ROOT, Config, shipped_config
from load_tests.harness.wrk import BenchmarkError, Samples, median, wait_for
from serve_app.processes.instance import Instance
from serve_app.processes.ports import Ports
from serve_app.rollout.deploy import deploy, wait_until_running

CONNECTIONS = [1, 16]

console = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Bar:
    """What a figure of one target has to reach, as a ratio to a peer's in the same run."""

    target: str
    figure: str  # of load_tests.harness.wrk.Sample
    connections: int
    peer: str
    comparison: str
    ratio: float

    def verdict(self, samples: Samples) -> tuple[float, bool]:
        measured, peer = (
            median(samples, name, self.connections, self.figure)
            for name in (self.target, self.peer)
        )
        ratio = measured / peer
        return ratio, ratio >= self.ratio if self.comparison == ">=" else ratio <= self.ratio


@dataclass(frozen=True)
class PairedBar(Bar):
    """The same within each round, of which the median counts: what else the machine does changes
    from round to round."""

    def verdict(self, samples: Samples) -> tuple[float, bool]:
        ratio = paired(samples, self.target, self.peer, self.connections, self.figure)
        return ratio, ratio >= self.ratio if self.comparison == ">=" else ratio <= self.ratio


def run(
    description: str | None,
    port_base: int,
    bars: Sequence[Bar],
    measure: Callable[[argparse.Namespace], Samples],
) -> int:
    """Read the options, measure, print every figure; return the status of the process."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one run of wrk")
    parser.add_argument("--port-base", type=int, default=port_base)
    parser.add_argument("--json", type=Path, help="write every sample to this file")
    options = parser.parse_args()
    try:
        samples = measure(options)
    except BenchmarkError as error:
        console.print(str(error), style="red", markup=False)
        return 1
    print_figures(samples)
    print_bars(samples, bars)
    if options.json:
        write_samples(samples, options.json)
    return 0


@contextlib.contextmanager
def serving(
    port_base: int,
    applications: list[dict[str, Any]],
    config: Config | None = None,
    edge: bool = False,
    **env: str,
) -> Iterator[tuple[Instance, float]]:
    """Yield an instance with these applications, and the seconds from deploy to RUNNING.

    Args:
        config: what stands around the applications, as in serve_config.yaml by default.
        edge: whether to leave the documents' ports to an edge.
    """
    temp_dir = Path(tempfile.mkdtemp(prefix="gwb-", dir="/tmp"))
    ports = Ports.from_base(port_base)
    instance = Instance(
        temp_dir / "data",
        ports if edge else ports.without_edge(),
        temp_dir=temp_dir,
        env={"PYTHONPATH": str(ROOT), **env},
    )
    config = config or shipped_config()
    http_options = config["http_options"] | {"port": instance.ports.front}
    config = config | {"http_options": http_options, "applications": applications}
    try:
        instance.start()
        started = time.monotonic()
        deploy(instance.dashboard_url, config)
        wait_until_running(instance.dashboard_url, [app["name"] for app in applications], 120)
        yield instance, time.monotonic() - started
    finally:
        instance.stop()
        shutil.rmtree(temp_dir, ignore_errors=True)


@contextlib.contextmanager
def uvicorn(factory: str, port: int, **env: str) -> Iterator[str]:
    """Run a bare FastAPI application in one process; yield its base URL."""
    command = [sys.executable, "-m", "uvicorn", "--factory", "--no-access-log"]
    command += ["--port", str(port), "--log-level", "warning", factory]
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"} | env, cwd=ROOT)
    try:
        wait_for(f"http://127.0.0.1:{port}/docs")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def paired(samples: Samples, name: str, peer: str, connections: int, figure: str) -> float:
    """Return the median of a figure's ratios within the rounds."""
    pairs = zip(samples[name, connections], samples[peer, connections], strict=True)
    return float(statistics.median(getattr(a, figure) / getattr(b, figure) for a, b in pairs))


def print_pairs(samples: Samples, name: str, peer: str, connections: int) -> None:
    """Compare within each round: what else the machine does changes from round to round."""
    for figure in ("p50_ms", "p99_ms", "requests_per_s"):
        ratio = paired(samples, name, peer, connections, figure)
        console.print(
            f"{name}, {figure} at {connections}: {ratio:.3f} of {peer}, median of the rounds"
        )


def print_figures(samples: Samples) -> None:
    table = Table("target", "connections", "requests/s", "p50 ms", "p99 ms", title="medians")
    for name, n in samples:
        rate, p50, p99 = (
            median(samples, name, n, what) for what in ("requests_per_s", "p50_ms", "p99_ms")
        )
        table.add_row(name, str(n), f"{rate:.0f}", f"{p50:.2f}", f"{p99:.2f}")
    console.print(table)


def print_bars(samples: Samples, bars: Sequence[Bar]) -> None:
    table = Table("target", "figure", "against", "ratio", "bar", "", title="ratios of medians")
    for bar in bars:
        ratio, met = bar.verdict(samples)
        verdict = "[green]met[/green]" if met else "[red]missed[/red]"
        figure = f"{bar.figure} at {bar.connections}"
        table.add_row(
            bar.target, figure, bar.peer, f"{ratio:.3f}", f"{bar.comparison} {bar.ratio}", verdict
        )
    console.print(table)


def write_samples(samples: Samples, path: Path) -> None:
    rows = [
        {"target": name, "connections": n, **asdict(sample)}
        for (name, n), all_ in samples.items()
        for sample in all_
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1))
