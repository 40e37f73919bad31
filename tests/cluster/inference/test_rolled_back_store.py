"""A Redis that is restored from a backup, while replicas know of what it has lost."""

from __future__ import annotations

import shutil

from deployments.stateful.authority.fenced_writer import LeadershipRecord
from deployments.stateful.layout import Partition, table_of
from deployments.stateful.rolled_back import ROLLED_BACK_ROW, accept_rolled_back
from load_tests.harness.redis_server import RedisServer
from load_tests.harness.system import application
from serve_app.cli.stores import with_store
from tests.cluster.gateway.conftest import wait_for
from tests.cluster.inference.conftest import step

NAME = "rolled"


def read(redis: RedisServer, row: str) -> bytes | None:
    return with_store(redis.url, lambda store: store.get(table_of(NAME), row))


def written(redis: RedisServer) -> int:
    """Return the number of the state actor's writes, one of which is a heartbeat each second."""
    return LeadershipRecord.unpack(read(redis, Partition(generation=1).row) or b"").writes


def test_no_state_is_stepped_until_an_operator_accepts_the_earlier_store(system, run_id, tmp_path):
    redis = RedisServer(tmp_path / "redis").start()
    others = set(system.state_actors())
    env = {"STORE_URL": redis.url}
    try:
        system.deploy(application(NAME, f"/{NAME}", env=env, durability="store"))
        (actor,) = set(system.state_actors()) - others
        assert step(system, NAME, run_id) == 1
        redis.stop()
        shutil.copytree(tmp_path / "redis", tmp_path / "backup")
        redis.start()
        wait_for(lambda: step(system, NAME, run_id) > 2)
        n_written = written(redis)
        wait_for(lambda: written(redis) > n_written + 3)  # by now the replica has learned of some

        redis.stop()
        actor.kill()  # or it would find the loss itself
        shutil.rmtree(tmp_path / "redis" / "appendonlydir")
        shutil.copytree(tmp_path / "backup", tmp_path / "redis", dirs_exist_ok=True)
        redis.start()
        wait_for(lambda: read(redis, ROLLED_BACK_ROW) is not None)
        assert step(system, NAME, run_id) == 0

        assert with_store(redis.url, lambda store: accept_rolled_back(store, table_of(NAME)))
        wait_for(lambda: step(system, NAME, run_id) == 2, timeout_s=90)  # the backup has one step
    finally:
        system.remove(NAME)
        redis.stop()
