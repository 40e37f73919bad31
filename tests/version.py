"""Which version of the hidden states is tested: by it the simulation draws its seeds."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from deployments.stateful import protocol

VERSION_VARIABLE = "SIMULATED_VERSION"

_CORE = Path(protocol.__file__).parent


def version() -> str:
    """Return a name of the version that is tested; a mutant has that of what it was made from."""
    files = sorted(_CORE.rglob("*.py"))
    source = b"".join(file.read_bytes() for file in files)
    return os.environ.get(VERSION_VARIABLE) or hashlib.sha256(source).hexdigest()
