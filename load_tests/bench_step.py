"""Measures one step of the policy by itself: NumPy, as served, against the network in PyTorch.

In one thread, as in a replica, but without Ray. The two alternate, so that noise meets both.

    make bench-step ARGS="--rounds 100"
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable
from timeit import Timer

import numpy as np
import torch
from rich.table import Table

from load_tests.bench.harness import console
from models.junctions import JUNCTIONS, MAX_OBS, N_AGENTS
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import encode
from models.policy.network import RecurrentPolicy, mask_logits, read_state_dict
from models.policy.step import PolicyStep
from serve_app.settings import Settings

BATCH_SIZES = [1, 4, 16, 64, 256]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=50)
    rounds = parser.parse_args().rounds
    if os.environ.get("OMP_NUM_THREADS") != "1":  # NumPy reads it at import
        os.execve(sys.executable, sys.orig_argv, os.environ | {"OMP_NUM_THREADS": "1"})
    torch.set_num_threads(1)
    weights = read_state_dict(Settings().mappo_agent_path)
    title = f"one step of B rows in \u00b5s, best / median of {rounds} rounds"
    table = Table("B", "NumPy", "PyTorch", "ratio of medians", title=title)
    for n in BATCH_SIZES:
        numpy, eager = _measure(_steps(weights, n), rounds, calls=max(10, 1000 // n))
        ratio = statistics.median(numpy) / statistics.median(eager)
        table.add_row(str(n), _figures(numpy), _figures(eager), f"{ratio:.2f}")
    console.print(table)
    return 0


def _steps(weights: dict[str, torch.Tensor], n: int) -> list[Callable[[], object]]:
    """Return a step of n rows in NumPy, and the same one in PyTorch."""
    rng = np.random.default_rng(0)
    agents = [row % N_AGENTS for row in range(n)]
    inputs = encode(agents, rng.random((n, MAX_OBS)).tolist())
    hidden = rng.uniform(-1, 1, (n, HIDDEN_DIM)).astype(np.float32)
    junctions = list(JUNCTIONS.values())
    available = np.array([junctions[agent].avail_actions for agent in agents])
    policy = PolicyStep(weights)
    unavailable = available == 0
    network = RecurrentPolicy().eval()
    network.load_state_dict(weights)
    tensors = [torch.from_numpy(each) for each in (inputs, hidden, available)]

    @torch.inference_mode()
    def eager() -> object:
        logits, new_hidden = network(*tensors[:2])
        return torch.softmax(mask_logits(logits, tensors[2]), dim=1).max(dim=1), new_hidden

    return [lambda: policy(inputs, hidden, unavailable), eager]


def _measure(steps: list[Callable[[], object]], rounds: int, calls: int) -> list[list[float]]:
    """Return the microseconds of each step in each round, by step."""
    timers = [Timer(step) for step in steps]
    samples = [[timer.timeit(calls) / calls * 1e6 for timer in timers] for _ in range(rounds)]
    return [list(each) for each in zip(*samples, strict=True)]


def _figures(samples: list[float]) -> str:
    return f"{min(samples):.1f} / {statistics.median(samples):.1f}"


if __name__ == "__main__":
    sys.exit(main())
