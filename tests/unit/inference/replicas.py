"""Replicas that share their states, and the policies that they may serve."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deployments.inference.policies import bucket_of
from deployments.inference.policy_model import output_form, state_width
from deployments.inference.service import InferenceService
from deployments.stateful.row import RowForm
from models.networks.network import Network
from models.networks.shipped import SHIPPED
from models.signals.diagnosis import JunctionDiagnosis
from tests.reference import ReferencePolicy, random_state_dict
from tests.support.local_states import local_engine
from tests.unit.inference.policies import SMALL, WEIGHTS, Prediction, observations

SECOND_WEIGHTS = random_state_dict(seed=7)
SECOND = ReferencePolicy(SECOND_WEIGHTS)
RUNS = [f"run-{n}" for n in range(40)]
LOW, HIGH = min(RUNS, key=bucket_of), max(RUNS, key=bucket_of)


def form_of(network: Network, diagnoses: Sequence[JunctionDiagnosis] | None = None) -> RowForm:
    """Return the form of the states of a network's policy."""
    return RowForm(np.dtype(("<f4", state_width(diagnoses))), output_form(network, diagnoses))


FORM = form_of(SHIPPED)


def save_policies(folder: Path) -> None:
    torch.save(WEIGHTS, folder / "first.th")
    torch.save(SECOND_WEIGHTS, folder / "second.th")
    torch.save(random_state_dict(scale=1e38), folder / "overflows.th")
    (folder / "broken.th").write_bytes(b"not a policy")


class Replicas:
    """Services of one application that serve first.th.

    Args:
        folder: of the files of :func:`save_policies`.
    """

    def __init__(self, folder: Path) -> None:
        self.services: list[InferenceService] = []
        self.folder = folder

    def canary(
        self, file: str = "second.th", mode: str = "canary", share: float = 0.5, states: str = "new"
    ) -> dict[str, Any]:
        """Return the configuration of a canary."""
        path = str(self.folder / file)
        return {"agent_path": path, "states": states, "mode": mode, "share": share}

    def promoted(self) -> dict[str, Any]:
        """Return the configuration after the promotion of a canary."""
        return {"agent_path": str(self.folder / "second.th"), "states": "new"}


@contextlib.asynccontextmanager
async def running(
    n: int,
    folder: Path,
    max_states: int = 100_000,
    diagnoses: Sequence[JunctionDiagnosis] | None = None,
) -> AsyncIterator[Replicas]:
    """Run n replicas."""
    with local_engine(form_of(SHIPPED, diagnoses), max_states) as engine:
        replicas = Replicas(folder)
        for _ in range(n):
            replicas.services.append(InferenceService(engine, diagnoses=diagnoses))
            await replicas.services[-1].policies.start(str(folder / "first.th"))
        yield replicas
        for service in replicas.services:
            await service.close()


async def make_steps(service: InferenceService, run: str, n: int) -> list[Prediction]:
    """Make n steps of the small junction, one after the other."""
    return [(obs, await service.predict(run, SMALL, obs)) for obs in observations(n)]


async def reconfigure(service: InferenceService, **user_config: Any) -> None:
    await service.policies.reconfigure(user_config)
