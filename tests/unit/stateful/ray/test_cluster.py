"""What a state actor knows of the processes of its node."""

from __future__ import annotations

import os
import subprocess
import sys

from deployments.stateful.ray.cluster import has_ended, name_of_this_process

PROGRAM = (
    "from deployments.stateful.ray.cluster import name_of_this_process;"
    "print(name_of_this_process(), flush=True); input()"
)


async def test_a_living_process_has_not_ended():
    assert not await has_ended(name_of_this_process())


async def test_a_killed_process_has_ended_even_before_it_is_waited_for():
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        name = child.stdout.readline().strip()
        assert not await has_ended(name)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
        assert await has_ended(name)
    assert await has_ended(name)


async def test_a_later_process_with_the_same_number_is_another_one():
    machine, pid, started = name_of_this_process().split("/")
    assert await has_ended(f"{machine}/{pid}/{int(started) - 1}")


async def test_a_process_of_another_machine_may_be_alive():
    assert not await has_ended(f"other/{2**22 + 1}/5")
