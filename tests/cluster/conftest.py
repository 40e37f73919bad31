"""The running system that all cluster tests share."""

import collections
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import torch

from lab.train.policy_network import RecurrentPolicy
from load_tests.harness.states_folder import states_folder
from load_tests.harness.system import QUICK, System, application, running_system
from models.networks.shipped import SHIPPED
from models.policy.form import PolicyForm
from tests.support.browser import browser as browser
from tests.support.browser import chromium as chromium

Weights = dict[str, torch.Tensor]

LOG_LINES, LOG_WIDTH = 25, 240


def save_policy(path: Path, seed: int) -> Weights:
    """Save random weights, larger than usual so that states and confidences differ clearly."""
    torch.manual_seed(seed)
    state_dict = RecurrentPolicy(PolicyForm.of(SHIPPED)).state_dict()
    weights = collections.OrderedDict((name, 3 * value) for name, value in state_dict.items())
    torch.save(weights, path)
    return weights


@pytest.fixture(scope="session")
def policy_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policy") / "agent.th"
    save_policy(path, seed=1)
    return path


@pytest.fixture(scope="session")
def weights(policy_file: Path) -> Weights:
    loaded: Weights = torch.load(policy_file, weights_only=True)
    return loaded


@pytest.fixture(scope="session", autouse=True)
def own_states_folder() -> Iterator[None]:
    """Keep the hidden states of all systems, also of those that commands start, in one folder."""
    with states_folder():
        yield


@pytest.fixture(scope="session")
def system(policy_file: Path) -> Iterator[System]:
    env = {"MAPPO_AGENT_PATH": str(policy_file), **QUICK}
    with running_system(application("inference", "/"), edge=None, env=env) as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the end of Serve's logs to a failure. The logs are removed with the system."""
    report = yield
    shared = item.funcargs.get("system") if isinstance(item, pytest.Function) else None
    if report.failed and isinstance(shared, System):
        problems = [
            line
            for line in shared.serve_logs("replica").splitlines()
            if line.startswith(("WARNING", "ERROR", "CRITICAL"))
        ]
        changes = shared.serve_logs("controller_[0-9]").splitlines()
        for title, lines in {"replicas": problems, "controller": changes}.items():
            shown = "\n".join(line[:LOG_WIDTH] for line in lines[-LOG_LINES:])
            report.sections.append((f"Serve's log of the {title}", shown))
    return report


@pytest.fixture
def run_id(request: pytest.FixtureRequest) -> str:
    """Name a simulation run of the test's own."""
    return f"{request.node.originalname[:30]}.{uuid.uuid4().hex[:8]}"
