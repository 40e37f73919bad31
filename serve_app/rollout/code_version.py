"""Versions of the code of applications.

Serve replaces replicas when their config changes, but not when their code does, or a file that the
config names. So ``greenwave deploy`` writes a hash of both into each application's environment. The
hash covers only what the builder imports and reads: a change of one service restarts no other.
Models are not in it: they are loaded by ``user_config``, without a restart.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from importlib import metadata
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

from serve_app.errors import PACKAGES, ROOT
from serve_app.settings import Settings, variables_of

VARIABLE = "GREENWAVE_VERSION"
DIGITS = 16
_DATA = ("*.html", "*/greenwave*.json")  # pages, and the shipped network
_READS_NAMED_FILES = "serve_app.configured_network"


def stamp(config: dict[str, Any]) -> dict[str, Any]:
    """Return the config with the version of the code in each of our applications."""
    applications = [_stamped(each) if module_of(each) else each for each in config["applications"]]
    return config | {"applications": applications}


def _stamped(application: dict[str, Any]) -> dict[str, Any]:
    """Return a new application: several may share one environment by a YAML anchor."""
    environment = application.get("runtime_env") or {}
    variables = {**variables_of(application), VARIABLE: version_of(application)}
    return application | {"runtime_env": environment | {"env_vars": variables}}


def version_of(application: Mapping[str, Any]) -> str:
    """Return the version that the code and files of one of our applications have here."""
    arguments = application.get("args") or {}
    configured = variables_of(application).get("NETWORK_PATH") or Settings().network_path
    files = [arguments.get("network") or configured, arguments.get("plan_file")]
    return code_version(module_of(application), filter(None, files))


def module_of(application: Mapping[str, Any]) -> str:
    """Return the module of one of our builders; "" for any other application."""
    module: str = application["import_path"].partition(":")[0]
    return module if module.split(".")[0] in PACKAGES else ""


def code_version(module: str, named: Iterable[str | Path] = ()) -> str:
    """Return a hash of the module, all of our modules that it imports, and our dependencies.

    Args:
        named: files that the config names, which count if the module reads such files.
    """
    hashed = hashlib.sha256()
    finder = ModuleFinder([str(ROOT)])  # without the libraries, whose versions are hashed below
    finder.import_hook(module)
    files = (vars(each)["__file__"] for each in finder.modules.values())  # None for a builtin
    sources = [Path(file) for file in files if file]
    packages = [source.parent for source in sources if source.name == "__init__.py"]
    data = [path for folder in packages for pattern in _DATA for path in folder.glob(pattern)]
    paths = sorted([*sources, *data])
    if _READS_NAMED_FILES in finder.modules:
        paths += [path for each in named if (path := ROOT / each).is_file()]
    for path in paths:
        hashed.update(path.read_bytes())
    for requirement in sorted(metadata.requires("greenwave") or []):
        hashed.update(_installed(requirement).encode())
    return hashed.hexdigest()[:DIGITS]


def _installed(requirement: str) -> str:
    """Return name and version of a requirement, or only its name if it is not installed."""
    name = re.split(r"[\s;\[<>=!~]", requirement, maxsplit=1)[0]
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return name
