"""The container file keeps the rules of a safe image; there is no engine here to build it."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from serve_app.cli import main as cli
from serve_app.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "Containerfile"


def instructions() -> list[tuple[str, str]]:
    """Return each instruction with its words, lines put together and comments left out."""
    lines = (line for line in FILE.read_text().splitlines() if not line.startswith("#"))
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    words = (line.partition(" ") for line in text.splitlines() if line.strip())
    return [(instruction, rest) for instruction, _, rest in words]


def values(instruction: str) -> list[str]:
    return [rest for name, rest in instructions() if name == instruction]


@pytest.fixture(scope="module")
def final():
    """Return the last of each instruction in the last stage."""
    names = [name for name, _ in instructions()]
    start = len(names) - names[::-1].index("FROM") - 1
    return dict(instructions()[start:])


def test_the_linter_finds_nothing():
    hadolint = Path(sys.executable).with_name("hadolint")
    linted = subprocess.run([str(hadolint), str(FILE)], capture_output=True, text=True)
    assert linted.stdout + linted.stderr == ""
    assert linted.returncode == 0


def test_the_python_is_pinned_by_digest_and_one_that_the_project_supports():
    pinned = r"PYTHON=(3\.1[12])\.\d+-slim-bookworm@sha256:[0-9a-f]{64}"
    assert [each for each in values("ARG") if re.fullmatch(pinned, each)] == values("ARG")
    assert all(base.split()[0] == "python:${PYTHON}" for base in values("FROM"))


def test_every_package_is_installed_by_its_hash():
    installs = re.findall(r"pip install (.*?)(?: &&|$)", "\n".join(values("RUN")), re.MULTILINE)
    hashed, own = installs
    assert hashed.strip() == "--require-hashes --requirement requirements.lock"
    assert {"--no-deps", "--no-build-isolation"} < set(own.split())


@pytest.mark.parametrize("extra", ["", "lab", "load", "dev"])
def test_every_requirement_but_pytorch_is_locked_with_hashes(extra):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    requirements = list(project["project"]["dependencies"])
    if extra:
        requirements += project["project"]["optional-dependencies"][extra]
    requirements += project["build-system"]["requires"]
    names = {re.split(r"[\[<>=!~]", each)[0].lower() for each in requirements}
    locks = ["requirements.lock"] + ([f"requirements-{extra}.lock"] if extra else [])
    text = "".join((ROOT / lock).read_text() for lock in locks).replace("\\\n", "")
    locked = {line.partition("==")[0]: line for line in text.splitlines()}
    assert names - set(locked) <= {"torch"}
    hashed = r"[\w.-]+==\S+( +--hash=sha256:[0-9a-f]{64})+"
    assert [line for line in locked.values() if not re.fullmatch(hashed, line)] == []


def test_it_runs_as_a_number_that_is_not_root(final):
    user, _, group = final["USER"].partition(":")
    assert int(user) >= 10000
    assert int(group) >= 10000


def test_it_writes_to_the_volume_and_to_tmp_alone(final):
    environment = dict(re.findall(r"(\w+)=(\S+)", final["ENV"]))
    assert environment["DATA_DIR"] == final["VOLUME"] == "/data"
    assert environment["HOME"] == "/tmp"


def test_the_variables_are_ones_that_are_read(final):
    of_others = {"PATH", "HOME", "PYTHONUNBUFFERED", "RAY_SERVE_HAPROXY_BINARY_PATH"}
    known = {name.upper() for name in Settings.model_fields} | of_others
    assert set(re.findall(r"(\w+)=", final["ENV"])) - known == set()


def test_it_says_whether_it_is_healthy(final):
    assert "http://127.0.0.1:8000/livez" in final["HEALTHCHECK"]


def test_its_command_is_one_of_the_command_line(final):
    program, *arguments = re.findall(r'"([^"]+)"', final["CMD"])
    assert program == "greenwave"
    parsed = cli.parser_of(arguments[0]).parse_args(arguments)
    assert parsed.foreground


def test_no_secret_is_in_it():
    assert re.findall(r"(?i)(password|secret|token)\s*=", FILE.read_text()) == []


def sent_to_the_builder() -> Iterator[str]:
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line.startswith("!"):
            yield line[1:]


def test_the_builder_is_sent_what_is_copied_and_nothing_else():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    copies = [each.split()[:-1] for each in values("COPY") if not each.startswith("--from")]
    assert {source for sources in copies for source in sources} == set(sent_to_the_builder())
    assert all((ROOT / each).exists() for each in sent_to_the_builder())
