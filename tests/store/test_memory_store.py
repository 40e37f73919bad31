"""The store in memory, on which unit tests run, keeps the contract of the others."""

import pytest

from tests.store import test_contract
from tests.unit.access.memory_store import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


class TestChange(test_contract.TestChange):
    # It knows no index, lives in one process, and lets no task run during a call.
    test_written_documents_keep_their_index_and_deleted_ones_free_it = None  # type: ignore[assignment]
    test_concurrent_steps_from_value_to_value_are_all_counted = None  # type: ignore[assignment]
    test_no_reader_sees_half_of_a_change = None  # type: ignore[assignment]


class TestScan(test_contract.TestScan): ...
