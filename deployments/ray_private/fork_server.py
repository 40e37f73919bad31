"""Forks workers from a process that has imported what they all need.

Imports take 1.5 s of a core and 50 MB in each worker; forked ones share both. Nothing of this
project is imported before the fork, so a new worker has the code that is on the disk.
setup_worker.py starts a server for each environment, as a script, and it ends with its raylet.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from typing import Any

LISTENER = 3  # the descriptor of the listening socket
MODULES = (
    "ray._private.workers.default_worker",
    "ray.serve._private.replica",
    "ray.serve._private.controller",
    "ray.serve._private.proxy",
    "ray.serve._private.haproxy",
    *("argon2", "cffi", "cryptography.hazmat.primitives.asymmetric.rsa", "httptools", "jwt"),
    *("lmdb", "numpy", "pydantic_settings", "safetensors.numpy", "sqlite3", "uvicorn", "uvloop"),
)
_REQUEST_BYTES, _REQUEST_S = 1 << 20, 1.0


class _ActorClassID:
    """Names classes of actors without Ray's random generator, whose state a fork would copy.

    Ray kills a process that receives different tasks of one name.
    """

    @staticmethod
    def from_random() -> Any:
        from ray._raylet import ActorClassID

        return ActorClassID(os.urandom(ActorClassID.size()))


def main() -> None:
    os.setpgid(0, 0)  # when a worker ends, the raylet kills the group of its first process
    if not sys.flags.safe_path:
        del sys.path[0]  # this folder, whose modules have names of others
    preload()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if worker := fork_workers(socket.socket(fileno=LISTENER)):
        run(worker)


def preload() -> None:
    """Import what workers need."""
    gc.disable()
    with contextlib.suppress(ImportError):
        import ray.actor

        ray.actor.ActorClassID = _ActorClassID
    for module in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    gc.freeze()  # the garbage collector would write to each page, which ends its being shared


def fork_workers(listener: socket.socket) -> dict[str, Any] | None:
    """Fork a worker for each request; return its request in the worker, and None at the end."""
    raylet = os.pidfd_open(int(os.environ["RAY_RAYLET_PID"]))
    while raylet not in select.select([listener.fileno(), raylet], [], [])[0]:
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            connection.settimeout(_REQUEST_S)
            request, streams, _, _ = socket.recv_fds(connection, _REQUEST_BYTES, 3)
            if request and os.fork() == 0:
                try:
                    os.setpgid(0, 0)
                    connection.sendall(b"forked")
                    for number, stream in enumerate(streams):
                        os.dup2(stream, number)
                except OSError:  # setup_worker.py has given up
                    os._exit(1)
                listener.close()
                for descriptor in (raylet, *streams):
                    os.close(descriptor)
                worker: dict[str, Any] = json.loads(request)
                return worker
            for stream in streams:
                os.close(stream)
    return None


def run(worker: dict[str, Any]) -> None:
    """Be the worker: what its command would run, in its environment."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    gc.enable()
    os.environ.clear()
    os.environ.update(worker["environment"])
    sys.argv = worker["command"]
    if not sys.flags.safe_path:
        sys.path.insert(0, os.path.dirname(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
