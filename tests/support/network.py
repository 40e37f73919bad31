"""A network on this machine: a bridge, and namespaces on it in place of machines.

Names contain the process id of their maker. So what a killed test leaves behind is recognised, and
removed by the next one.
"""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence

import psutil

_PREFIX = "gw"
_OWNED = re.compile(rf"{_PREFIX}(\d+)[a-z]")
_LETTERS = itertools.cycle("abcdefghijklmnopqrstuvwxyz")
_END_S = 10.0


class NoNetworkError(RuntimeError):
    """This machine has no network namespaces; the message says why."""


def why_not() -> str | None:
    """Return why there can be no network here, as a sentence; None if there can."""
    if os.geteuid() != 0:
        return "Network namespaces need root."
    if not shutil.which("ip"):
        return "Network namespaces need the program ip (iproute2)."
    probe = f"{_PREFIX}{os.getpid()}p"
    made = _try("ip", "link", "add", probe, "type", "bridge")
    if made is None:
        made = _try("ip", "netns", "add", probe)
        _try("ip", "netns", "del", probe)
    _try("ip", "link", "del", probe)
    return made and f"This machine has no network namespaces: {made}"


class Network:
    """A bridge with two addresses of this machine, one for the store, and hosts numbered from 1."""

    def __init__(self) -> None:
        if reason := why_not():
            raise NoNetworkError(reason)
        remove_leftovers()
        self.name = f"{_PREFIX}{os.getpid()}{next(_LETTERS)}"
        self._subnet = _free_subnet()
        self.gateway = f"{self._subnet}.254"
        self.store = f"{self._subnet}.253"
        run("ip", "link", "add", self.name, "type", "bridge")
        for address in (self.gateway, self.store):
            run("ip", "addr", "add", f"{address}/24", "dev", self.name)
        run("ip", "link", "set", self.name, "up")

    def address(self, number: int) -> str:
        return f"{self._subnet}.{number}"

    def namespace(self, number: int) -> str:
        return f"{self.name}n{number}"

    def add_host(self, number: int) -> None:
        name, inner, outer = self.namespace(number), "eth0", f"{self.name}v{number}"
        run("ip", "netns", "add", name)
        end = ("peer", "name", inner, "netns", name)
        run("ip", "link", "add", outer, "type", "veth", *end)
        run("ip", "link", "set", outer, "master", self.name, "up")
        inside = ("ip", "-n", name)
        run(*inside, "addr", "add", f"{self.address(number)}/24", "dev", inner)
        run(*inside, "link", "set", "lo", "up")
        run(*inside, "link", "set", inner, "up")

    def processes(self, number: int) -> list[psutil.Process]:
        return list(_inside(self.namespace(number)))

    def kill(self, number: int) -> None:
        """Kill every process of a host, as the loss of its power does."""
        _kill(self.namespace(number))

    @contextlib.contextmanager
    def cut(self, number: int, others: Sequence[int]) -> Iterator[None]:
        """Drop all packets between a host and others meanwhile."""
        routes = [(number, other) for other in others] + [(other, number) for other in others]
        with contextlib.ExitStack() as stack:
            for at, to in routes:
                stack.enter_context(self._dropped(at, self.address(to)))
            yield

    def cut_from_store(self, number: int) -> contextlib.AbstractContextManager[None]:
        """Drop all packets from a host to the store meanwhile."""
        return self._dropped(number, self.store)

    @contextlib.contextmanager
    def _dropped(self, number: int, address: str) -> Iterator[None]:
        inside = ("ip", "-n", self.namespace(number), "route")
        run(*inside, "add", "blackhole", address)
        try:
            yield
        finally:
            run(*inside, "del", "blackhole", address)

    def remove(self) -> None:
        _remove(self.name)


def remove_leftovers() -> None:
    """Remove the networks of processes that have ended."""
    for name in {*_links(), *_namespaces()}:
        if (owned := _OWNED.match(name)) and not psutil.pid_exists(int(owned[1])):
            _remove(owned[0])


def _remove(network: str) -> None:
    for name in _namespaces():
        if name.startswith(f"{network}n"):
            _kill(name)
            run("ip", "netns", "del", name)
    for name in _links():  # open connections keep a namespace and its links
        if name == network or name.startswith(f"{network}v"):
            _try("ip", "link", "del", name)


def _kill(namespace: str) -> None:
    deadline = time.monotonic() + _END_S
    while (there := list(_inside(namespace))) and time.monotonic() < deadline:
        for process in there:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        time.sleep(0.02)  # what they started meanwhile is killed in the next round


def _inside(namespace: str) -> Iterator[psutil.Process]:
    for pid in run("ip", "netns", "pids", namespace).split():
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(int(pid))
            if process.status() != psutil.STATUS_ZOMBIE:
                yield process


def _links() -> list[str]:
    return [link["ifname"] for link in json.loads(run("ip", "-json", "link", "show"))]


def _namespaces() -> list[str]:
    return [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line]


def _free_subnet() -> str:
    taken = run("ip", "-4", "-oneline", "addr", "show")
    return next(net for n in range(1, 255) if f" {(net := f'10.213.{n}')}." not in taken)


def run(*command: str) -> str:
    """Run a command of the system and return its output.

    Raises:
        NoNetworkError: it failed.
    """
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise NoNetworkError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def _try(*command: str) -> str | None:
    try:
        run(*command)
    except NoNetworkError as error:
        return str(error)
    return None
