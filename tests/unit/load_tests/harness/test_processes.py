"""CPU time and memory of processes that come and go."""

import subprocess
import sys

from load_tests.harness.processes import started_by, stop

# leaves the session with a child, as some servers' workers do
PARENT = """
import subprocess, sys, time
loop = [sys.executable, "-c", "import time; time.sleep(600)"]
subprocess.Popen(loop)
subprocess.Popen(loop, start_new_session=True)
print("started", flush=True)
time.sleep(600)
"""


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
