"""CPU time and memory of processes that come and go."""

import subprocess
import sys
import time

import psutil

from load_tests.harness.processes import (
    REST,
    cpu_seconds,
    cpu_seconds_by_kind,
    memory_bytes,
    started_by,
    stop,
)

# leaves the session with a child, as some servers' workers do
PARENT = """
import subprocess, sys, time
loop = [sys.executable, "-c", "import time; time.sleep(600)"]
subprocess.Popen(loop)
subprocess.Popen(loop, start_new_session=True)
print("started", flush=True)
time.sleep(600)
"""


def test_work_of_a_real_process_is_seen():
    me = psutil.Process()
    before = cpu_seconds([me])
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    assert 0.05 < cpu_seconds([me]) - before < 5
    assert cpu_seconds_by_kind([me]).keys() == {REST}
    assert memory_bytes([me]) > 1_000_000


def test_all_that_a_leader_has_started_is_found_and_stopped_even_after_the_leader():
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, start_new_session=True
    ) as leader:
        try:
            assert leader.stdout is not None
            leader.stdout.readline()
            found = started_by(leader.pid)
            assert len(found) == 3
            assert found[0].pid == leader.pid
            stop(found, timeout_s=20)
        finally:
            leader.kill()
    assert not [process for process in found if process.is_running()]
    assert started_by(leader.pid) == []
