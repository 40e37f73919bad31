"""Addresses, times and attempts that are refused, and what users see of the client."""

import inspect
import subprocess
import sys
from dataclasses import fields

import pytest

import greenwave.client
from greenwave.client import Addresses, AsyncClient, Client, InvalidInputError, Retries, Timeouts
from serve_app.processes.ports import Ports
from tests.documentation import read


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://host", "http://", "http://h/?q", "http://a:b@h", ""]
)
def test_what_is_no_address_is_refused(kind, url):
    with pytest.raises(InvalidInputError, match="An address looks like"):
        kind(url)


def test_a_second_instance_is_found_by_its_port_base():
    second, ports = Addresses.of_edge("h", port_base=23000), Ports.from_base(23000)
    assert second.inference == f"http://h:{ports.http}"
    assert second.gateway == second.accounts == f"http://h:{ports.gateway}"
    assert second.density == second.flow == f"http://h:{ports.density}"
    assert second.loans == f"http://h:{ports.loans}"
    assert second.cards == f"http://h:{ports.cards}"
    edge = Addresses.of_edge("junction.example", "https")
    assert edge.inference == "http://junction.example:8000", "it is plain HTTP at every edge"
    assert edge.gateway == "https://junction.example:8080"


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        *((Timeouts, {name: 0}, "number of seconds above 0") for name in ("total_s", "attempt_s")),
        (Timeouts, {"connect_s": float("inf")}, "number of seconds above 0"),
        (Retries, {"attempts": 0}, "1 at least"),
    ],
)
def test_times_without_an_end_and_no_attempts_are_refused(kind, given, message):
    with pytest.raises(InvalidInputError, match=message):
        kind(**given)


@pytest.mark.parametrize("kind", [Timeouts, Retries])
def test_the_page_shows_what_holds_without_settings(kind):
    shown = ", ".join(f"{each.name}={each.default}" for each in fields(kind))
    assert f"{kind.__name__}({shown})" in read("docs/client.md")


def test_a_machine_that_only_calls_needs_nothing_of_what_serves():
    heavy = {
        "deployments",
        "fastapi",
        "httpx",
        "lab",
        "models",
        "numpy",
        "ray",
        "serve_app",
        "starlette",
    }
    listed = (
        "from greenwave.client import Client; import sys;"
        "from greenwave.client.inference import Inference;"
        "Inference(print, '').infer([[0.5]], ['pier'], runs='run-1'); print(*sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", listed], capture_output=True, check=True)
    assert heavy & set(result.stdout.decode().split()) == set()


def test_all_public_names_are_exported():
    errors = {
        name for name, each in vars(greenwave.client.errors).items() if inspect.isclass(each)
    } - {"Mapping"}
    assert errors <= set(greenwave.client.__all__)
