"""Markers from the path: a test's folder says what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        kind = Path(item.path).relative_to(root).parts[0]
        item.add_marker(getattr(pytest.mark, kind))
