"""A store that waits for a busy machine: tests/store is about its deadlines."""

import pytest

from deployments.store import sqlite_worker


@pytest.fixture(autouse=True)
def patient_store(monkeypatch):
    for name in ("BUSY_TIMEOUT_S", "LATEST_S", "DEADLINE_S"):
        monkeypatch.setattr(sqlite_worker, name, 60.0)
