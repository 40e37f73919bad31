"""What was acknowledged survives kill -9 of the process that wrote it.

A killed Redis is one of the faults of tests/cluster/whole_system/test_faults.py.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from deployments.store import open_store
from tests.store.writer import TABLE, document

ROOT = Path(__file__).parents[2]
WRITES = 2_000


def start_writer(url: str, prefix: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.store.writer", url, prefix]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def note(acknowledged: dict[str, int], lines: Iterable[str], writes: int) -> int:
    """Note the versions that a writer reports until it has made so many writes; return how many."""
    made = 0
    for made, line in enumerate(lines, 1):
        key, version = line.split()
        acknowledged[key] = int(version)
        if made == writes:
            break
    return made


async def test_killed_writers_lose_nothing_that_they_acknowledged(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    acknowledged: dict[str, int] = {}
    writes = 0
    survivor = start_writer(url, "survivor")
    try:
        for round_ in range(5):
            victim = start_writer(url, f"victim{round_}")
            assert victim.stdout is not None
            writes += note(acknowledged, victim.stdout, WRITES // 4)
            victim.kill()
            writes += note(acknowledged, victim.stdout, WRITES)  # what it wrote before it died
            victim.wait(timeout=20)
            victim.stdout.close()
        assert survivor.stdout is not None
        writes += note(acknowledged, survivor.stdout, WRITES // 4)  # which goes on unhindered
    finally:
        survivor.kill()
        survivor.communicate(timeout=20)
    assert writes >= WRITES
    store = open_store(url)
    found = {key: value async for key, value in store.scan(TABLE)}
    for key, version in acknowledged.items():
        possible = [document(key, later) for later in (1, 2) if later >= version]
        (stored,) = (each for each in possible if each.value == found.get(key))
        assert stored.index is not None
        assert await store.get_by_index(TABLE, stored.index) == found[key]
    await store.close()
