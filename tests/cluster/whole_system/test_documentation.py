"""The documentation's calls, and the Python of the client's page, work as the pages show them."""

import json
import re
import subprocess
from typing import Any

import pytest

from tests.documentation import PAGES, calls, read

# curl as the pages write it, which also reports each status, and knows the inference token.
CURL = """curl() {
    local token=(); [[ "$*" != *127.0.0.1:$INFERENCE_PORT/* ]] ||
        token=(-H "Authorization: Bearer $INFERENCE_TOKEN")
    command curl --max-time 60 -w '%{stderr}%{http_code}\\n' "${token[@]}" "$@"
}
"""
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


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
def test_calls_of_the_documentation_are_answered_in_the_form_that_the_page_shows(page, sut, known):
    shown, edge = calls(page), sut.instance.ports
    script = f"INFERENCE_PORT={sut.port_base}; INFERENCE_TOKEN={known['INFERENCE_TOKEN']}\n{CURL}"
    script += "printf '\\0'\n".join(call.script for call in shown)
    ports = {8000: sut.port_base, 8001: edge.density, 8080: edge.gateway}
    for port, own in (ports | {8090: edge.loans, 9000: edge.cards}).items():
        script = script.replace(f"localhost:{port}", f"127.0.0.1:{own}")
    script = script.replace("PRINTED_BY_MAKE_UP", known["JWT_AUTH_PASSWORD"])
    assert "localhost" not in script
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=250)

    statuses = result.stderr.split()
    assert len(statuses) == sum(call.script.count("curl ") for call in shown)
    assert set(statuses) <= {"200", "201"}, result.stdout
    answers = result.stdout.split("\0")
    for call, answer in zip(shown, answers, strict=True):
        assert form(json.loads(answer)) == form(json.loads(call.answer)), call.script


def test_the_python_of_the_clients_page_runs_in_its_order(addresses, known):
    blocks = PYTHON.findall(read("docs/client.md"))
    assert len(blocks) == 5
    here, token = f'"{addresses.inference}"', known["INFERENCE_TOKEN"]
    namespace: dict[str, Any] = {}
    for block in blocks:
        block = block.replace('Addresses.of_edge("localhost")', repr(addresses))
        block = block.replace('"http://localhost:8000"', f'{here}, inference_token="{token}"')
        exec(block.replace("PRINTED_BY_MAKE_UP", known["JWT_AUTH_PASSWORD"]), namespace)
    assert namespace["phase"] in (0, 1)
    assert isinstance(namespace["flow"], int)
    assert set(namespace["actions"]) <= {0, 1}
