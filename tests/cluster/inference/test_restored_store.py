"""A Redis that is restored from a backup: the table in memory counts, and is copied anew."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from deployments.store import open_store
from load_tests.harness.redis_server import RedisServer
from load_tests.harness.system import System, application
from tests.cluster.inference.conftest import step
from tests.support.copies import copied_steps
from tests.support.waiting import until


class Application:
    """One replica, with a Redis of its own.

    Args:
        name: that no other test has, because a state actor stays for a while.
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
        app = application(self._name, f"/{self._name}", env=env, snapshot_period_s=0.1)
        self._system.deploy(app)

    def actors(self) -> list[psutil.Process]:
        return list(set(self._system.state_actors()) - self._others)

    def all_processes(self) -> list[psutil.Process]:
        return [*self._system.replicas(self._name), *self.actors()]

    def step(self) -> int:
        """Make a step; while there is no home, requests get 503."""
        number = 0

        def is_answered() -> bool:
            nonlocal number
            number = step(self._system, self._name, "run")
            return number > 0

        until(is_answered)
        return number

    def stop(self) -> None:
        if self._name in self._system.applications:
            self._system.remove(self._name)
        self.redis.stop()

    def back_up(self) -> None:
        self.redis.stop()
        shutil.copytree(self._folder, self._backup)
        self.redis.start()

    def restore(self, killed: list[psutil.Process]) -> None:
        """Start Redis from the backup, after these processes have been killed."""
        self.redis.stop()
        for process in killed:
            process.kill()
        shutil.rmtree(self._folder / "appendonlydir")
        shutil.copytree(self._backup, self._folder, dirs_exist_ok=True)
        self.redis.start()

    def copied(self) -> list[int]:
        async def read() -> list[int]:
            store = open_store(self.redis.url)
            try:
                return await copied_steps(store, self._name)
            finally:
                await store.close()

        return asyncio.run(read())


@pytest.fixture
def app(system: System, tmp_path: Path, run_id: str) -> Iterator[Application]:
    deployed = Application(system, tmp_path, run_id.rpartition(".")[2])
    try:
        deployed.start()
        yield deployed
    finally:
        deployed.stop()


@pytest.mark.parametrize(
    "killed",
    [lambda app: [], Application.actors, Application.all_processes],
    ids=["nothing", "actor", "everything"],
)
def test_no_step_is_lost_with_the_writes_of_the_store(app, killed):
    assert app.step() == 1
    until(lambda: app.copied() == [1])
    app.back_up()
    assert [app.step() for _ in range(5)] == [2, 3, 4, 5, 6]
    until(lambda: app.copied() == [6])
    app.restore(killed(app))
    assert [app.step(), app.step()] == [7, 8]
    until(lambda: app.copied() == [8])
    assert app.step() == 9
