"""Measures both forecast routes of a running system against the same networks on bare FastAPI.

make up && python -m load_tests.bench_forecasts --url http://127.0.0.1:8000
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from load_tests.wrk import BenchmarkError, Samples, Target, measure, median, wait_for

ROOT = Path(__file__).resolve().parent.parent
CONNECTIONS = [1, 16]
PRODUCT, EAGER, SAME = "greenwave", "FastAPI, PyTorch", "FastAPI, the product's model"
BARS = [("requests_per_s", 16, ">=", 0.8), ("p50_ms", 1, "<=", 1.6)]
ROUTES = {
    "density": ("/density/predict", "/predict", "predict_density.lua"),
    "flow": ("/flow/forecast", "/forecast", "forecast_flow.lua"),
}

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the running system")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one run of wrk")
    parser.add_argument("--peer-port", type=int, default=8960, help="and the one after it")
    options = parser.parse_args()
    try:
        with _peers(options.peer_port):
            targets = list(_targets(options.url, options.peer_port))
            samples = measure(targets, CONNECTIONS, options.rounds, options.seconds, console.print)
    except BenchmarkError as error:
        console.print(f"{error}", style="red", markup=False)
        return 1
    _print_figures(samples)
    return 0


@contextlib.contextmanager
def _peers(first_port: int) -> Iterator[None]:
    processes = []
    try:
        for port, step in ((first_port, "torch"), (first_port + 1, "product")):
            command = [sys.executable, "-m", "uvicorn", "--factory", "--no-access-log"]
            command += ["--port", str(port), "--log-level", "warning"]
            command += ["load_tests.peers.fastapi_forecasts:create_app"]
            env = os.environ | {"PEER_STEP": step, "OMP_NUM_THREADS": "1"}
            processes.append(subprocess.Popen(command, env=env, cwd=ROOT))
            wait_for(f"http://127.0.0.1:{port}/docs")
        yield
    finally:
        for process in processes:
            process.terminate()
            process.wait(10)


def _targets(url: str, peer_port: int) -> Iterator[Target]:
    for route, (ours, theirs, script) in ROUTES.items():
        yield Target(f"{route}: {PRODUCT}", url + ours, script)
        yield Target(f"{route}: {EAGER}", f"http://127.0.0.1:{peer_port}{theirs}", script)
        if route == "density":  # the flow model is PyTorch in the product too
            same = f"http://127.0.0.1:{peer_port + 1}{theirs}"
            yield Target(f"{route}: {SAME}", same, script)


def _print_figures(samples: Samples) -> None:
    table = Table("target", "connections", "requests/s", "p50 ms", "p99 ms", title="medians")
    for name, n in samples:
        figures = [
            median(samples, name, n, what) for what in ("requests_per_s", "p50_ms", "p99_ms")
        ]
        table.add_row(name, str(n), *(f"{figure:.2f}" for figure in figures))
    console.print(table)
    ratios = Table("figure", "against", "ratio", "bar", "", title="ratios of medians")
    for what, n, comparison, bar in BARS:
        for name in sorted({name for name, _ in samples}):
            product = f"{name.split(':')[0]}: {PRODUCT}"
            if name == product:
                continue
            ratio = median(samples, product, n, what) / median(samples, name, n, what)
            met = ratio >= bar if comparison == ">=" else ratio <= bar
            verdict = "met" if met else "missed"
            ratios.add_row(f"{what} at {n}", name, f"{ratio:.2f}", f"{comparison} {bar}", verdict)
    console.print(ratios)


if __name__ == "__main__":
    sys.exit(main())
