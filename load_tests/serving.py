"""A Ray cluster of a benchmark's own, with the applications that it wants to load."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from serve_app.deploy import deploy, wait_until_running
from serve_app.instance import Instance, Ports

ROOT = Path(__file__).resolve().parent.parent


@contextlib.contextmanager
def serving(config: dict[str, Any], port_base: int) -> Iterator[tuple[Instance, float]]:
    """The running instance, and the seconds from deploying the config to RUNNING."""
    temp_dir = Path(tempfile.mkdtemp(prefix="gwb-", dir="/tmp"))
    env = {"PYTHONPATH": str(ROOT)}
    instance = Instance(temp_dir / "data", Ports.from_base(port_base), temp_dir=temp_dir, env=env)
    config["http_options"]["port"] = instance.ports.http
    try:
        instance.start()
        started = time.monotonic()
        deploy(instance.dashboard_url, config)
        names = [app["name"] for app in config["applications"]]
        wait_until_running(instance.dashboard_url, names, 120)
        yield instance, time.monotonic() - started
    finally:
        instance.stop()
        shutil.rmtree(temp_dir, ignore_errors=True)
