"""One contender's turn: started, warmed up, loaded, stopped."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic, sleep

from load_tests.bench.comparison.figures import Figures, Turn
from load_tests.bench.comparison.processes import cpu_seconds, resident_bytes
from load_tests.bench.contenders import Contender
from load_tests.bench.loads import BUSY, PLAIN, WARM_UP, Load, Running, measure
from load_tests.bench.start import wait_for_prediction

WARM_UP_S = 5.0
REST_CORES, REST_S, LOOK_S = 0.4, 20.0, 2.0


def take(
    contender: Contender, port_base: int, seconds: float, busy: bool, report: Callable[[str], None]
) -> Turn:
    """Start a contender, measure it, and stop it.

    Args:
        port_base: the first of 500 ports.
        seconds: length of each load.
        busy: measure beside a busy core, too.
    """
    figures: dict[str, Figures] = {}

    def measure_one(load: Load) -> None:
        figures[load.name] = found = measure(running, load, seconds)
        report(
            f"  {load.name:<36} {found.per_s:6.0f} predictions/s  p50 {found.p50_ms:6.2f} ms"
            f"  p99 {found.p99_ms:7.2f} ms  {found.cpu_s:.2f} ms of CPU each"
            f"  (others: {found.other_cores:.2f} cores)"
        )

    began = monotonic()
    with contender.start(port_base) as running:
        wait_for_prediction(running)
        start_s = monotonic() - began
        come_to_rest(running)
        measure(running, WARM_UP, WARM_UP_S)
        for load in PLAIN:
            measure_one(load)
        processes = running.processes()
        memory = resident_bytes(processes)
        if busy:
            measure_one(BUSY)
        for load in contender.more[-1:]:  # of the largest share of states, which get their owner
            measure(running, load, WARM_UP_S)
        for load in contender.more:
            measure_one(load)
    report(f"  {start_s:.1f} s to start, {len(processes)} processes, {memory / 1e6:.0f} MB")
    return Turn(start_s, memory, len(processes), figures)


def come_to_rest(running: Running) -> None:
    """Wait until what still starts behind the first answer, as in a Ray cluster, is done."""
    deadline = monotonic() + REST_S
    cores = math.inf
    while cores > REST_CORES and monotonic() < deadline:
        before = cpu_seconds(running.processes())
        sleep(LOOK_S)
        cores = (cpu_seconds(running.processes()) - before) / LOOK_S
