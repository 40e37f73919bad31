"""A Redis that is restored from a backup."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from deployments.stateful.authority.fenced_writer import LeadershipRecord
from deployments.stateful.layout import Partition, table_of
from deployments.stateful.rolled_back import ROLLED_BACK_ROW, accept_rolled_back
from load_tests.harness.redis_server import RedisServer
from load_tests.harness.system import System, application
from serve_app.cli.stores import with_store
from serve_app.rollout.deploy import wait_until_running
from tests.cluster.gateway.conftest import wait_for
from tests.cluster.inference.conftest import step


class Application:
    """One replica whose steps are in Redis before they are answered.

    Args:
        name: that no other test has, because the cluster remembers its terms.
    """

    def __init__(self, system: System, folder: Path, name: str) -> None:
        self._name = name
        self._folder, self._backup = folder / "redis", folder / "backup"
        self._system = system
        self._others = set(system.state_actors())
        self.redis = RedisServer(self._folder)

    def start(self) -> None:
        self.redis.start()
        env = {"STORE_URL": self.redis.url}
        self._system.deploy(application(self._name, f"/{self._name}", env=env, durability="store"))

    @property
    def replicas(self) -> list[psutil.Process]:
        return self._system.replicas(self._name)

    @property
    def actor(self) -> psutil.Process:
        (actor,) = set(self._system.state_actors()) - self._others
        return actor

    def step(self) -> int:
        return step(self._system, self._name, "run")

    def stop(self) -> None:
        if self._name in self._system.applications:
            self._system.remove(self._name)
        self.redis.stop()

    def back_up(self) -> None:
        self.redis.stop()
        shutil.copytree(self._folder, self._backup)
        self.redis.start()

    def restore(self, *dead: psutil.Process) -> None:
        """Start Redis from the backup, after these processes have been killed."""
        self.redis.stop()
        for process in dead:
            process.kill()  # or it would find the loss itself
        shutil.rmtree(self._folder / "appendonlydir")
        shutil.copytree(self._backup, self._folder, dirs_exist_ok=True)
        self.redis.start()

    def read(self, row: str) -> bytes | None:
        return with_store(self.redis.url, lambda store: store.get(table_of(self._name), row))

    @property
    def record(self) -> LeadershipRecord:
        """The state actor's record; it writes a heartbeat each second."""
        return LeadershipRecord.unpack(self.read(Partition(generation=1).row) or b"")

    def wait_until_refused(self) -> None:
        wait_for(lambda: self.read(ROLLED_BACK_ROW) is not None, timeout_s=60)

    def accept(self) -> None:
        table = table_of(self._name)
        assert with_store(self.redis.url, lambda store: accept_rolled_back(store, table))

    def wait_until_running(self) -> None:
        wait_until_running(self._system.instance.dashboard, [self._name], timeout_s=90)


@pytest.fixture
def app(system: System, tmp_path: Path, run_id: str) -> Iterator[Application]:
    deployed = Application(system, tmp_path, run_id.rpartition(".")[2])
    try:
        deployed.start()
        yield deployed
    finally:
        deployed.stop()


def test_no_state_is_stepped_until_an_operator_accepts_the_earlier_store(app):
    assert app.step() == 1
    app.back_up()
    wait_for(lambda: app.step() > 2)
    n_written = app.record.writes
    wait_for(lambda: app.record.writes > n_written + 3)  # by now the replica has learned of some
    app.restore(app.actor)
    app.wait_until_refused()
    assert app.step() == 0
    app.accept()
    wait_for(lambda: app.step() == 2, timeout_s=90)  # the backup has one step


def test_a_lost_term_is_found_although_no_process_is_left_that_knows_it(app):
    assert app.step() == 1
    app.back_up()
    app.actor.kill()
    wait_for(lambda: app.record.term == 2 and app.step() > 1)
    app.restore(app.actor, *app.replicas)
    app.wait_until_refused()
    app.accept()
    app.wait_until_running()
    assert app.step() == 2
