"""Virtual environments of contenders that cannot live in the project's own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]

_VERSIONS = """
import json, sys
from importlib.metadata import version
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""


class EnvironmentMissingError(RuntimeError):
    """The environment cannot be made; the message says why."""


def run_quietly(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True)


@dataclass(frozen=True)
class Environment:
    """An environment with exactly the packages of one file, made when it is first needed.

    Attributes:
        requirements: pinned, one a line.
        folder: where it is, or will be.
    """

    requirements: Path
    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def is_ready(self) -> bool:
        return self._stamp.exists() and self._stamp.read_text() == self._wanted()

    def make(self, run: Run = run_quietly) -> None:
        """Make it anew, with the Python that runs this.

        Raises:
            EnvironmentMissingError: pip has no network, or does not find a package.
        """
        pip = [str(self.python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(self.folder)],
            [*pip, "-r", str(self.requirements)],
        ):
            done = run(command)
            if done.returncode:
                last = (done.stderr or done.stdout).strip().splitlines()[-1:]
                raise EnvironmentMissingError(
                    f"{self.folder} could not be filled with {self.requirements.name}, which needs"
                    f" a package index: {''.join(last) or 'no reason given'}"
                )
        self._stamp.write_text(self._wanted())

    @property
    def _stamp(self) -> Path:
        return self.folder / "made-of"

    def _wanted(self) -> str:
        return f"Python {sys.version}\n{self.requirements.read_text()}"


def versions(python: Path, packages: Iterable[str], run: Run = run_quietly) -> dict[str, str]:
    """Return the versions of packages in the environment of a Python."""
    done = run([str(python), "-c", _VERSIONS, *packages])
    if done.returncode:
        raise EnvironmentMissingError(f"{python}: {done.stderr.strip().splitlines()[-1:]}")
    found: dict[str, str] = json.loads(done.stdout)
    return found
