"""The documentation's commands and calls work as shown, the calls on a running system."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from load_tests.harness.shipped import shipped_application
from load_tests.harness.system import System
from serve_app.cli import main as cli
from tests.cluster.conftest import behind_edge
from tests.cluster.gateway.conftest import gateway
from tests.documentation import PAGES, ROOT, calls, commands

# curl as the pages write it, which also reports each status.
CURL = "curl() { command curl --max-time 20 -w '%{stderr}%{http_code}\\n' \"$@\"; }\n"
OPERATOR = {"JWT_AUTH_USERNAME": "operator", "JWT_AUTH_PASSWORD": "PRINTED_BY_MAKE_UP"}
ENVIRONMENT = Path(sys.executable).parent


@pytest.fixture(scope="module")
def addresses(system: System) -> Iterator[dict[str, str]]:
    """Map each address of the pages to its place on the tests' own system, behind an edge."""
    others = [shipped_application(name) for name in ("density", "flow", "loans")]
    with behind_edge(system, gateway("gateway", "/api", env=OPERATOR), *others) as edge:
        yield {
            "localhost:8000": f"127.0.0.1:{system.instance.ports.http}",
            "localhost:8001": f"127.0.0.1:{edge.ports.density}",
            "localhost:8080": f"127.0.0.1:{edge.ports.gateway}",
            "localhost:8090": f"127.0.0.1:{edge.ports.loans}",
            "localhost:9000": f"127.0.0.1:{edge.ports.cards}",
        }


def form(value: object) -> object:
    """Reduce a JSON value to its keys and types."""
    match value:
        case dict():
            return {key: form(each) for key, each in value.items()}
        case list():
            return [form(each) for each in value]
        case bool() | None:
            return type(value).__name__
        case int() | float():
            return "number"
    return "string"


@pytest.mark.parametrize("page", [page for page in PAGES if calls(page)])
def test_calls_are_answered_in_the_form_that_the_page_shows(
    page: str, addresses: dict[str, str]
) -> None:
    shown = calls(page)
    script = CURL + "printf '\\0'\n".join(call.script for call in shown)
    for address, own in addresses.items():
        script = script.replace(address, own)
    assert "localhost" not in script
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=100)

    statuses = result.stderr.split()
    assert len(statuses) == sum(call.script.count("curl ") for call in shown)
    assert set(statuses) <= {"200", "201"}, result.stdout
    answers = result.stdout.split("\0")
    for call, answer in zip(shown, answers, strict=True):
        assert form(json.loads(answer)) == form(json.loads(call.answer)), call.script


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_programs_know_the_options_that_the_page_gives_them(page: str) -> None:
    """Ask for help, which checks what comes before it and starts nothing."""
    for program, *arguments in commands(page):
        match Path(program).name:
            case "make":
                continue  # its plan is a unit test's matter
            case "cp" | "eval" | "mkdir":
                continue  # of the operating system and the shell
            case "greenwave":
                with pytest.raises(SystemExit) as exit_:
                    cli.main([*arguments, "--help"])
                assert exit_.value.code == 0
            case name:
                command = [str(ENVIRONMENT / name), *arguments, "--help"]
                result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
                assert result.returncode == 0, result.stderr
