"""Markers from the path, as a folder says what its tests need, and which tests go together."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling, LoadScopeScheduling

# Folders whose files share what takes a minute to start.
TOGETHER = ("tests/cluster/browser/", "tests/cluster/client/", "tests/cluster/examples/")


def pytest_configure() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stops what tests started, as Ctrl-C


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        kind = Path(item.path).relative_to(root).parts[0]
        item.add_marker(getattr(pytest.mark, kind))


class ByFileOrFolder(LoadFileScheduling):  # type: ignore[misc]
    """Gives a file to one process, as ``--dist loadfile`` does, and a folder of these."""

    def _split_scope(self, nodeid: str) -> str:
        folders = (folder for folder in TOGETHER if nodeid.startswith(folder))
        file: str = super()._split_scope(nodeid)
        return next(folders, file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling | None:
    return ByFileOrFolder(config, log) if config.getvalue("dist") == "loadfile" else None
