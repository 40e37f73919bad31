"""What a replica would refuse is reported before it starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from serve_app.rollout.model_files import find_file_faults


def config(network: Path | None, diagnose: bool) -> dict[str, Any]:
    args = {"diagnose_detectors": diagnose} | ({"network": str(network)} if network else {})
    application = {"name": "inference", "import_path": "serve_app.inference:build", "args": args}
    return {"applications": [application]}


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """Return a network file that does not say when a lane is green."""
    path = tmp_path / "bare.json"
    lanes = [{"id": "lane", "capacity": 9}]
    junction = {"id": "a", "agent_index": 0, "phases": [{}, {}], "lanes": lanes}
    path.write_text(json.dumps({"name": "bare", "junctions": [junction]}))
    return path


def faults(network: Path | None, diagnose: bool) -> list[str]:
    return list(find_file_faults(config(network, diagnose), policies=False))


def test_detectors_of_the_shipped_network_can_be_diagnosed():
    assert faults(None, diagnose=True) == []


def test_a_diagnosis_that_the_network_file_does_not_allow_is_refused_with_the_junction(bare):
    assert faults(bare, diagnose=False) == []
    (fault,) = faults(bare, diagnose=True)
    assert fault == (
        "Application inference: junction a has no states of its phases, or no links, without which"
        " its detectors cannot be diagnosed."
    )
