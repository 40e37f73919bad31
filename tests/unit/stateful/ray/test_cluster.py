from __future__ import annotations

import os
import subprocess
import sys

from deployments.stateful.ray.cluster import has_ended, name_of_this_process

NODE = "n" * 56


def test_a_living_process_has_not_ended():
    assert not has_ended(name_of_this_process(NODE), NODE)


def test_a_process_that_is_gone_has_ended():
    name = subprocess.run(
        [sys.executable, "-c", f"{ASK} print(name_of_this_process({NODE!r}))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert has_ended(name, NODE)


def test_a_process_that_was_killed_and_that_nobody_has_waited_for_has_ended():
    with subprocess.Popen(
        [sys.executable, "-c", TELL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        name = child.stdout.readline().strip()
        assert not has_ended(name, NODE)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
        assert has_ended(name, NODE)


def test_a_later_process_with_the_same_number_is_another_one():
    node, pid, started = name_of_this_process(NODE).split("/")
    assert has_ended(f"{node}/{pid}/{int(started) - 1}", NODE)


def test_of_another_node_nothing_is_known():
    assert not has_ended(f"other/{2**22 + 1}/5", NODE)


ASK = "from deployments.stateful.ray.cluster import name_of_this_process;"
TELL = f"{ASK} print(name_of_this_process({NODE!r}), flush=True); input()"
