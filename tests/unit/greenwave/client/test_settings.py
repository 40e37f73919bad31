"""Addresses, times and attempts that make no sense are refused in a sentence."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from greenwave.client import (
    Addresses,
    AsyncClient,
    Client,
    InvalidInputError,
    Retries,
    Timeouts,
)
from serve_app.processes.edge import EdgePorts
from serve_app.processes.ports import Ports
from tests.documentation import read


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://host", "http://", "http://h/?q", "http://a:b@h", ""]
)
def test_what_is_no_address_is_refused(kind: type[Any], url: str) -> None:
    with pytest.raises(InvalidInputError, match="An address looks like"):
        kind(url)


def test_a_second_instance_is_found_by_its_port_base() -> None:
    second, ports = Addresses.of_edge("h", port_base=23000), EdgePorts.from_base(23000)
    assert second.inference == f"http://h:{Ports.from_base(23000).http}"
    assert second.gateway == second.accounts == f"http://h:{ports.gateway}"
    assert second.density == second.flow == f"http://h:{ports.density}"
    assert second.loans == f"http://h:{ports.loans}"
    assert second.cards == f"http://h:{ports.cards}"
    edge = Addresses.of_edge("junction.example", "https")
    assert edge.inference == "http://junction.example:8000", "it is plain HTTP at every edge"
    assert edge.gateway == "https://junction.example:8080"


@pytest.mark.parametrize("times", [{"total_s": 0}, {"attempt_s": -1}, {"connect_s": float("inf")}])
def test_times_without_an_end_are_refused(times: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError, match=r"_s must be a number of seconds above 0"):
        Timeouts(**times)


def test_no_attempts_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="1 at least"):
        Retries(attempts=0)


@pytest.mark.parametrize("kind", [Timeouts, Retries])
def test_the_page_shows_what_holds_without_settings(kind: type[Timeouts] | type[Retries]) -> None:
    shown = ", ".join(f"{each.name}={each.default}" for each in fields(kind))
    assert f"{kind.__name__}({shown})" in read("docs/client.md")
