"""Make one run of the evaluation. A worker process cannot import it from ``__main__``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from lab.evaluate.cases import Job
from lab.evaluate.report import Run
from lab.sim.controllers import run

SAME = {"sumo": version("eclipse-sumo")}


def run_job(job: Job) -> Mapping[str, Any]:
    """Simulate one run in this process."""
    scenario = job.scenario
    metrics = run(scenario, job.seed, job.control(scenario))
    made = Run(
        controller=job.controller,
        version=job.version,
        level=job.level,
        seed=job.seed,
        time_loss_s=round(metrics.time_loss_s, 3),
        waiting_s=round(metrics.waiting_s, 3),
        travel_s=round(metrics.travel_s, 3),
        arrived=metrics.arrived,
        demanded=metrics.demanded,
        queue=round(sum(metrics.queues.values()), 3),
    )
    return made._asdict() | SAME
