"""Markers from the path, and which tests may be skipped in CI."""

import os
import re
import signal
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

# Reasons why CI may skip a test: what a machine cannot have, or a user has to download.
MAY_SKIP = (
    "Network namespaces need root|This machine has no network namespaces|This machine cannot set up"
    "|Other users cannot read|Only root can|becomes another user|no process can be traced here"
    "|this machine has loopback addresses only|this redis-server is built without TLS|needs wrk"
    "|no systemd-analyze|Stable-Baselines3|atspm is not installed|RESCO|KubeRay's RayService"
)


def pytest_configure() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stops what tests started, as Ctrl-C


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        kind = Path(item.path).relative_to(root).parts[0]
        item.add_marker(getattr(pytest.mark, kind))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _checked((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _checked((yield))


def _checked(report: Report) -> Report:
    """Fail what is skipped in CI without a reason that is allowed there.

    ``.ci/run`` puts further reasons into ``MAY_SKIP``, where it could not install a program.
    """
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        allowed = f"{MAY_SKIP}|{os.environ.get('MAY_SKIP', MAY_SKIP)}"
        if not re.search(allowed, reason):
            report.outcome, report.longrepr = "failed", f"Not to be skipped in CI: {reason}"
    return report
