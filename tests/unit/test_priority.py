import subprocess
import sys

CODE = """
import os, threading
from deployments.feed.actor import lower_priority

later = threading.Event()
thread = threading.Thread(target=later.wait)
thread.start()
lower_priority()
print({os.getpriority(os.PRIO_PROCESS, each) for each in (os.getpid(), thread.native_id)})
later.set()
"""


def test_all_threads_give_way_also_those_that_were_there_before():
    assert subprocess.check_output([sys.executable, "-c", CODE], text=True).strip() == "{19}"
