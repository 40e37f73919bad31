from __future__ import annotations

import numpy as np
import pytest

from deployments.inference.authority.rows import Copy
from deployments.inference.authority.table import StateTable
from deployments.inference.authority.write_behind import NoCopies
from deployments.inference.protocol import Key, Version

KEY = Key("run", "a")
LATE = Copy(Version(2**90, 3), np.ones(128, np.float32), ())


@pytest.mark.parametrize("how", ["restore", "adopt"])
def test_a_state_is_granted_under_a_higher_epoch_wherever_it_came_from(how: str) -> None:
    table = StateTable(NoCopies(), clock=lambda: 0.0)
    getattr(table, how)(KEY, LATE)
    record = table.obtain(KEY)
    table.begin_epoch(record)
    assert record.version == Version(2**90 + 1, 3)
