"""Deploys under load: new code, a version that does not start, a rollback, `up` once more."""

import psutil
import pytest

from load_tests.chaos.faults import FAULTS
from serve_app.processes.supervision.supervisor import GUARD, RUN, Supervisor
from tests.cluster.whole_system.test_faults import check_fault

LONG = pytest.param("no-start", marks=pytest.mark.long)


@pytest.mark.parametrize("change", ["weights", "misfit", "no-import", LONG, "rollback"])
async def test_a_change_costs_no_request(sut, change):
    await check_fault(sut, FAULTS[change])


def test_the_same_version_again_and_a_second_up_replace_nothing_but_a_dead_guard(sut):
    def serving() -> list[psutil.Process | None]:
        return [*sut.processes("ray::ServeReplica"), sut.instance.head(), sut.edge.master()]

    before = serving()
    sut.deploy(sut.served[-1])
    supervisor = Supervisor(sut.instance)
    (guard,) = supervisor.running(GUARD)
    guard.kill()
    sut.deploy(sut.served[-1], "up")
    assert serving() == before
    assert supervisor.running(GUARD)
    assert supervisor.running(RUN)
    assert not guard.is_running()
