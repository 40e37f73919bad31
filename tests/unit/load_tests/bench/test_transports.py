"""A rate counts requests by the time in which they were answered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from load_tests.bench import transports


async def test_a_rate_is_by_the_time_until_the_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0

    async def client() -> AsyncIterator[None]:
        nonlocal now_s
        while True:
            now_s += 0.5
            yield

    monkeypatch.setattr(transports, "time", SimpleNamespace(perf_counter=lambda: now_s))
    figures = await transports._drive([client()], 10, 1.2)
    assert figures == {"per_s": 20.0, "p50_ms": 500.0, "p99_ms": 500.0}
