"""A supervised instance survives the death of any process, and takes new versions."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psutil
import pytest

from load_tests.harness.shipped import shipped_application, shipped_config
from load_tests.harness.system import free_port_base
from load_tests.harness.waiting import wait_until
from serve_app.processes.instance import Instance
from serve_app.processes.ports import Ports
from serve_app.processes.supervision.supervisor import GUARD, RUN, Supervisor
from tests.cluster.launcher.running_instance import SupervisedInstance

pytestmark = pytest.mark.alone

BROKEN = "tests.cluster.launcher.broken:build"
FLAKY = "tests.cluster.launcher.broken:build_flaky"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedInstance]:
    base, folder = free_port_base(), tmp_path_factory.mktemp("kept")
    config = shipped_config()
    config["applications"] = [shipped_application("inference")]
    instance = Instance(folder / f"ports-{base}", Ports.from_base(base))
    env = {"DATA_DIR": str(folder), "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "2"}
    system = SupervisedInstance(instance, base, config, folder, env)
    try:
        up = system.deploy("up")
        assert up.returncode == 0, up.stdout + up.stderr
        yield system
        assert system.run("down").stdout == "Stopped.\n"
        assert instance.processes() == []
        assert not instance.runtime_dir.exists()
    finally:
        instance.stop()
        instance.remove_runtime_files()


def test_a_killed_edge_serves_again_within_a_second(kept):
    before = kept.edge()
    before.kill()
    before.wait()
    assert kept.seconds_away() < 1
    assert kept.edge().pid != before.pid


def test_a_second_up_disturbs_nothing(kept):
    before = {process.pid for process in (kept.edge(), kept.head(), kept.supervisor(RUN))}
    with kept.load() as statuses:
        assert kept.deploy("up").returncode == 0
    assert set(statuses) == {200}
    assert {process.pid for process in (kept.edge(), kept.head(), kept.supervisor(RUN))} == before


def test_nothing_stops_with_the_supervisor_and_its_guard_restarts_it(kept):
    before = kept.edge(), kept.head()
    with kept.load() as statuses:
        supervisor = kept.supervisor(RUN)
        supervisor.kill()
        wait_until(lambda: not supervisor.is_running(), 10, "it has died")
        wait_until(lambda: Supervisor(kept.instance).running(RUN), 10, "another one runs")
    assert (kept.edge(), kept.head()) == before
    assert set(statuses) == {200}


def test_nothing_stops_with_the_guard_and_up_replaces_it(kept):
    head = kept.head()
    with kept.load() as statuses:
        kept.supervisor(GUARD).kill()
        assert kept.deploy("up").returncode == 0
    assert kept.supervisor(GUARD).is_running()
    assert kept.supervisor(RUN).is_running()
    assert kept.head() == head
    assert set(statuses) == {200}


def test_a_new_version_and_its_rollback_cost_no_request(kept):
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


def test_a_version_that_does_not_start_is_reported_and_the_previous_one_serves(kept):
    with kept.load() as statuses:
        said = kept.deploy(import_path=BROKEN)
    assert said.returncode == 1
    assert "the new version is broken. The previous release still serves." in said.stderr
    assert "Traceback" not in said.stderr
    assert set(statuses) == {200}


@pytest.mark.parametrize("victim", ["raylet", "gcs_server"])
def test_ray_restarts_when_a_vital_process_dies(victim, kept):
    head = kept.head()
    kept.vital(victim).kill()
    psutil.wait_procs([head], timeout=10)
    assert kept.seconds_away() < 60  # a third of that on a quiet machine
    assert kept.head() != head
    status = kept.run("status").stdout
    assert re.search(f"Ray has ended: .*{victim}.* died", status), status


def test_after_a_restart_of_ray_what_serve_gives_up_is_deployed_again(kept, tmp_path):
    environment = kept.config["applications"][0]["runtime_env"]["env_vars"]
    flaky = {"runtime_env": {"env_vars": environment | {"FAILURES": str(tmp_path)}}}
    assert kept.deploy(import_path=FLAKY, **flaky).returncode == 0
    for failure in ("builder", "constructor-1", "constructor-2", "constructor-3"):
        (tmp_path / failure).touch()
    head = kept.head()
    kept.vital("raylet").kill()
    psutil.wait_procs([head], timeout=10)
    kept.seconds_away(patience_s=180)
    assert list(tmp_path.iterdir()) == []


def replicas(kept: SupervisedInstance) -> set[str]:
    """Return the ids of the replicas."""
    (application,) = kept.instance.dashboard.applications().values()
    return {each["replica_id"] for each in application["deployments"]["Inference"]["replicas"]}
