"""Commands as an operator types them, on a separate data folder."""

import io
import shlex
from collections.abc import Callable
from typing import NamedTuple

import pytest

from serve_app.cli.main import main

SECRET = "0123456789abcdef0123456789abcdef"


class Result(NamedTuple):
    """What a command returned and printed."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


Greenwave = Callable[..., Result]


@pytest.fixture
def data_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("JWT_SECRET", SECRET)
    monkeypatch.delenv("RAY_REDIS_ADDRESS", raising=False)
    return tmp_path / "data"


@pytest.fixture
def greenwave(data_dir, monkeypatch, capsys):
    """Run a command with what is typed on its standard input."""

    def run(*words: str, typed: str = "") -> Result:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        capsys.readouterr()
        return Result(main(words), *capsys.readouterr())

    return run


@pytest.fixture
def refuse(greenwave):
    """Run a command line that must end with a reason, and no traceback."""

    def run(command: str, reason: str, typed: str = "") -> Result:
        refused: Result = greenwave(*shlex.split(command), typed=typed)
        assert refused.code == 1
        assert reason in " ".join(refused.err.split())
        assert "Traceback" not in refused.err
        return refused

    return run
