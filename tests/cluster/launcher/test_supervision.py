"""What ``greenwave up`` has started keeps running, whatever dies, and takes new versions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from load_tests.harness.shipped import shipped_application, shipped_config
from load_tests.harness.system import free_port_base
from serve_app import ray_dashboard
from serve_app.processes.instance import Instance
from serve_app.processes.ports import Ports
from tests.cluster.launcher.running_instance import Kept

pytestmark = pytest.mark.alone

BROKEN = "tests.cluster.launcher.broken:build"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    base, folder = free_port_base(), tmp_path_factory.mktemp("kept")
    config = shipped_config()
    config["applications"] = [shipped_application("inference")]
    temp_dir = Path(f"/tmp/greenwave-{base}")
    instance = Instance(folder / f"ports-{base}", Ports.from_base(base), temp_dir)
    env = {"DATA_DIR": str(folder), "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "2"}
    system = Kept(instance, base, config, folder, env)
    try:
        up = system.deploy("up")
        assert up.returncode == 0, up.stdout + up.stderr
        yield system
        assert system.run("down").stdout == "Stopped.\n"
        assert instance.processes() == []
    finally:
        instance.stop()
        shutil.rmtree(temp_dir, ignore_errors=True)


def test_a_killed_edge_is_back_within_a_second(kept):
    before = kept.edge()
    before.kill()
    before.wait()
    assert kept.seconds_away() < 1
    assert kept.edge().pid != before.pid


def test_up_again_disturbs_nothing(kept):
    before = {process.pid for process in (kept.edge(), kept.head(), kept.supervisor())}
    with kept.load() as statuses:
        assert kept.deploy("up").returncode == 0
    assert set(statuses) == {200}
    assert {process.pid for process in (kept.edge(), kept.head(), kept.supervisor())} == before


def test_a_killed_supervisor_takes_nobody_along_and_up_replaces_it(kept):
    head = kept.head()
    with kept.load() as statuses:
        kept.supervisor().kill()
        assert kept.deploy("up").returncode == 0
    assert kept.supervisor().is_running()
    assert kept.head() == head
    assert set(statuses) == {200}


def test_a_new_version_and_the_way_back_cost_no_request(kept):
    environment = kept.config["applications"][0]["runtime_env"]["env_vars"]
    newer = {"runtime_env": {"env_vars": environment | {"MKL_NUM_THREADS": "1"}}}
    (replica,) = replicas(kept)
    with kept.load() as statuses:
        assert kept.deploy(**newer).returncode == 0
        assert replica not in replicas(kept)
        assert kept.run("rollback").returncode == 0
    assert statuses[200] > 100
    assert set(statuses) == {200}


def test_the_same_version_again_replaces_no_replica(kept):
    before = replicas(kept)
    assert kept.deploy().returncode == 0
    assert replicas(kept) == before


def test_a_version_that_does_not_start_says_why_and_the_one_before_serves_on(kept):
    with kept.load() as statuses:
        said = kept.deploy(import_path=BROKEN)
    assert said.returncode == 1
    assert "the new version is broken. The release before it serves on." in said.stderr
    assert "Traceback" not in said.stderr
    assert set(statuses) == {200}


@pytest.mark.parametrize("victim", ["raylet", "gcs_server"])
def test_all_of_ray_comes_back_by_itself(victim, kept):
    head = kept.head()
    kept.vital(victim).kill()
    psutil.wait_procs([head], timeout=10)
    assert kept.seconds_away() < 60  # a third of that on a quiet machine
    assert kept.head() != head
    status = kept.run("status").stdout
    assert f"Ray has gone: {victim} has died." in status


def replicas(kept: Kept) -> set[str]:
    """Name the replicas that run."""
    answer = ray_dashboard.get(
        kept.instance.dashboard_url, ray_dashboard.APPLICATIONS, timeout_s=10
    )
    (application,) = answer.json()["applications"].values()
    return {each["replica_id"] for each in application["deployments"]["Inference"]["replicas"]}
