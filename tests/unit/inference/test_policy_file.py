"""The file of the policy: which one is served, after good files and bad ones.

How a slot keeps the present model is tested in tests/unit/test_model_slot.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from deployments.inference.api import create_app
from tests.reference import ReferencePolicy
from tests.unit.inference.policies import SMALL, WEIGHTS
from tests.unit.inference.replicas import SECOND
from tests.unit.inference.serving import client_of


@pytest.fixture
def other_file(policy_folder: Path) -> str:
    return str(policy_folder / "second.th")


@pytest.mark.parametrize("damage", ["missing", "folder", "truncated", "text"])
async def test_a_bad_first_file_leaves_no_model_and_a_good_one_repairs(
    empty_service, policy_file, tmp_path, damage
):
    path = tmp_path / "agent.th"
    if damage == "folder":
        path.mkdir()
    elif damage == "truncated":
        path.write_bytes(policy_file.read_bytes()[:1000])
    elif damage == "text":
        path.write_text("not a policy")
    policies = empty_service.policies
    await policies.start(str(path))
    async with client_of(create_app(empty_service)) as client:
        health = (await client.get("/health")).json()
        assert (health["status"], health["model_loaded"]) == ("no_model", False)
        assert str(path) in health["detail"]
        await policies.reconfigure({"agent_path": str(policy_file)})
        assert (await client.get("/health")).json()["status"] == "healthy"


async def test_a_swap_changes_the_decisions_and_keeps_the_states(service, client, other_file):
    body = {"junction_id": SMALL, "obs_data": [0.5]}
    await client.post("/predict_action", json=body)
    _, _, hidden = ReferencePolicy(WEIGHTS).step(SMALL, [0.5])
    await service.policies.reconfigure({"agent_path": other_file})
    response = await client.post("/predict_action", json=body)
    _, confidence, _ = SECOND.step(SMALL, [0.5], hidden)
    assert response.headers["x-hidden-state-step"] == "2"
    assert response.json()["confidence"] == pytest.approx(confidence, abs=2e-4)
