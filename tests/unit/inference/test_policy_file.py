from __future__ import annotations

import httpx
import pytest
import torch

from deployments.inference.api import create_app
from deployments.inference.options import InferenceOptions
from deployments.model_slot import ModelSlot
from deployments.stateful.protocol import Key
from models.policy.form import InvalidPolicyFileError
from models.policy.step import PolicyStep
from tests.reference import ReferencePolicy, random_state_dict
from tests.unit.inference.policies import SMALL, WEIGHTS


@pytest.fixture
def other_file(tmp_path):
    path = tmp_path / "other.th"
    torch.save(random_state_dict(seed=7), path)
    return path


async def test_a_good_file_is_served(policy_file):
    slot = ModelSlot("policy", PolicyStep.load, InvalidPolicyFileError)
    assert slot.model is None
    assert slot.problem
    await slot.load(str(policy_file))
    assert slot.model is not None
    assert slot.problem is None


@pytest.mark.parametrize("damage", ["missing", "folder", "truncated", "text"])
async def test_a_bad_first_file_leaves_no_model_and_says_why(tmp_path, policy_file, damage):
    path = tmp_path / "agent.th"
    if damage == "folder":
        path.mkdir()
    elif damage == "truncated":
        path.write_bytes(policy_file.read_bytes()[:1000])
    elif damage == "text":
        path.write_text("not a policy")
    slot = ModelSlot("policy", PolicyStep.load, InvalidPolicyFileError)
    await slot.load(str(path))
    assert slot.model is None
    assert slot.problem is not None
    assert str(path) in slot.problem


async def test_a_swap_changes_the_answers_and_keeps_the_states(service, client, other_file):
    body = {"junction_id": SMALL, "obs_data": [0.5]}
    await client.post("/predict_action", json=body)
    _, _, hidden = ReferencePolicy(WEIGHTS).step(SMALL, [0.5])
    await service.policies.primary.slot.load(str(other_file))
    answer = await client.post("/predict_action", json=body)
    _, confidence, _ = ReferencePolicy(random_state_dict(seed=7)).step(SMALL, [0.5], hidden)
    assert answer.headers["x-hidden-state-step"] == "2"
    assert answer.json()["confidence"] == pytest.approx(confidence, abs=2e-4)


async def test_a_bad_swap_leaves_the_policy_before_it_in_service(service, client, tmp_path):
    before = service.policies.primary.slot.model
    await service.policies.primary.slot.load(str(tmp_path / "missing.th"))
    assert service.policies.primary.slot.model is before
    health = (await client.get("/health")).json()
    assert health["status"] == "healthy"
    assert "no such file" in health["detail"]
    answer = await client.post("/predict_action", json={"junction_id": SMALL, "obs_data": []})
    assert answer.status_code == 200


async def test_a_bad_first_file_is_told_by_health_and_a_good_one_repairs(
    empty_service, policy_file, tmp_path
):
    await empty_service.policies.primary.slot.load(str(tmp_path))
    transport = httpx.ASGITransport(create_app(empty_service, InferenceOptions()))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        health = (await client.get("/health")).json()
        assert (health["status"], health["model_loaded"]) == ("no_model", False)
        assert "not a PyTorch state dict" in health["detail"]
        await empty_service.policies.primary.slot.load(str(policy_file))
        assert (await client.get("/health")).json()["status"] == "healthy"


async def test_requests_under_way_finish_with_one_policy_or_the_other(service, other_file):
    answers = [service.predict("run", SMALL, [0.5]) for _ in range(10)]
    await service.policies.primary.slot.load(str(other_file))
    answers += [service.predict("run", SMALL, [0.5]) for _ in range(10)]
    assert [(await answer).step for answer in answers] == list(range(1, 21))
    state = service.leases.owned(Key("run", SMALL))
    assert state is not None
    assert state.version.step == 20
