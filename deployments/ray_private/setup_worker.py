"""The first file of each worker: set its environment, then become the worker.

Ray's own setup_worker.py imports all of Ray for that, which takes 0.45 s of a core, and the worker
imports it again. So this file imports neither Ray nor the rest of this package, and leaves what it
does not know to Ray's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from importlib.util import find_spec
from typing import Any

# What Ray's RuntimeEnvContext has beside the environment. Any of them changes the command.
_OF_OTHER_COMMANDS = ("command_prefix", "override_worker_entrypoint", "java_jars")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--serialized-runtime-env-context")
    parser.add_argument("--language")
    options, command = parser.parse_known_args()
    context = json.loads(options.serialized_runtime_env_context or "{}")
    if options.language == "PYTHON" and _sets_only_variables(context):
        _set_variables(context.get("env_vars") or {})
    else:
        command = [_path_of_rays(), *sys.argv[1:]]
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


def _path_of_rays() -> str:
    package = find_spec("ray")  # imports nothing
    assert package
    assert package.origin
    return os.path.join(os.path.dirname(package.origin), "_private", "workers", "setup_worker.py")


if __name__ == "__main__":
    main()
