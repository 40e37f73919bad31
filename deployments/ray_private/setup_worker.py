"""The first file of each worker: set its environment, then have it forked, or become the worker.

Ray's own setup_worker.py imports all of Ray for that, which takes 0.45 s of a core, and the worker
imports it again. So this file imports neither Ray nor the rest of this package, and leaves what it
does not know to Ray's. What it cannot have forked, it becomes.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import socket
import sys
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# What Ray's RuntimeEnvContext has beside the environment. Any of them changes the command.
_OF_OTHER_COMMANDS = ("command_prefix", "override_worker_entrypoint", "java_jars")
_OF_ONE_APPLICATION = "GREENWAVE_VERSION"  # which no import reads
_FORK_SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fork_server.py")
_LISTENER = 3
_FORK_S = 30.0  # the first worker waits for the imports; the raylet waits a minute


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--serialized-runtime-env-context")
    parser.add_argument("--language")
    options, command = parser.parse_known_args()
    context = json.loads(options.serialized_runtime_env_context or "{}")
    if options.language == "PYTHON" and _sets_only_variables(context):
        variables = context.get("env_vars") or {}
        _set_variables(variables)
        if _is_forked(command, variables):
            return
    else:
        command = [_path_of_rays("setup_worker.py"), *sys.argv[1:]]
    os.execv(sys.executable, [sys.executable, *command])


def _sets_only_variables(context: dict[str, Any]) -> bool:
    known = {"env_vars", "py_executable", *_OF_OTHER_COMMANDS}
    return (
        context.keys() <= known
        and not any(context.get(name) for name in _OF_OTHER_COMMANDS)
        and context.get("py_executable") in (None, sys.executable)
    )


def _set_variables(variables: dict[str, str]) -> None:
    """Set variables, whose values may contain ``${OTHERS}``, as Ray does."""
    for name, value in variables.items():
        os.environ[name] = re.sub(r"\$\{[A-Z0-9_]+\}", "", os.path.expandvars(value))


def _is_forked(command: list[str], variables: dict[str, str]) -> bool:
    """Have a server fork the worker; return False if it cannot."""
    worker = _path_of_rays("default_worker.py")
    if worker not in command:
        return False
    place = command.index(worker)
    flags, command = command[:place], command[place:]
    shared = {name: each for name, each in variables.items() if name != _OF_ONE_APPLICATION}
    packages = Path(worker).parents[3].stat().st_mtime_ns  # changes when one is installed
    key = json.dumps([shared, flags, packages], sort_keys=True)
    request = json.dumps({"command": command, "environment": dict(os.environ)}).encode()
    try:
        raylet = next(each for each in command if each.startswith("--raylet-name="))
        folder = Path(raylet.partition("=")[2]).parent
        with _connect(folder, f"fork-{zlib.crc32(key.encode()):08x}", flags, command) as server:
            server.settimeout(_FORK_S)
            socket.send_fds(server, [request], [0, 1, 2])
            return server.recv(16) == b"forked"
    except (OSError, StopIteration):
        return False


def _connect(folder: Path, name: str, flags: list[str], command: list[str]) -> socket.socket:
    """Connect to the server of this name, which is started if it does not run."""
    path, lock = str(folder / name), os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if server.connect_ex(path) == 0:
            return server
        Path(path).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            before = os.umask(0o077)
            listener.bind(path)
            os.umask(before)
            listener.listen(socket.SOMAXCONN)
            server.connect(path)
            if os.fork() == 0:
                os.dup2(listener.fileno(), _LISTENER)
                os.closerange(_LISTENER + 1, os.sysconf("SC_OPEN_MAX"))
                # Ray writes the titles of workers over these arguments, so they are as many.
                os.execv(sys.executable, [sys.executable, *flags, _FORK_SERVER, *command])
        return server
    finally:
        os.close(lock)


def _path_of_rays(name: str) -> str:
    package = find_spec("ray")  # imports nothing
    assert package
    assert package.origin
    return os.path.join(os.path.dirname(package.origin), "_private", "workers", name)


if __name__ == "__main__":
    main()
