"""The shipped policy and gateways on the running system, and the examples as programs."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from load_tests.harness.system import System, application
from models.policy.form import SHIPPED_POLICY
from tests.cluster.gateway.conftest import USER, gateway
from tests.documentation import ROOT

RunExample = Callable[..., str]


@pytest.fixture(scope="package")
def served(system: System) -> Iterator[str]:
    """Return the URL of the shipped policy and its gateway.

    Below it, ``/red`` and ``/plan`` are gateways without an inference service, by their fallback.
    """
    policy = {"agent_path": str(SHIPPED_POLICY)}
    without: dict[str, Any] = {"inference_app": "none"}
    applications = [
        application("examples", "/examples", user_config=policy),
        gateway("gateway-examples", "/examples/api", inference_app="examples"),
        gateway("gateway-red", "/examples/red/api", **without),
        gateway("gateway-plan", "/examples/plan/api", **without, fallback="plan"),
    ]
    system.deploy(*applications)
    yield f"{system.url}/examples"
    system.remove(*(each["name"] for each in applications))


@pytest.fixture
def run_example() -> RunExample:
    """Run an example's program to its end, and return what it prints."""

    def run(program: str, *arguments: str) -> str:
        result = subprocess.run(
            [sys.executable, f"examples/{program}", *arguments],
            cwd=ROOT,
            env=os.environ | {"GREENWAVE_PASSWORD": USER["password"]},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run
