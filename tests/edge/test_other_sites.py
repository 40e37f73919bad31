"""Pages of other sites cannot use the services by the browser of a user who reaches the edge."""

import socket
from dataclasses import replace

import httpx
import psutil
import pytest

from serve_app.processes.edge import FORBIDDEN, Edge
from tests.edge.conftest import assert_error_of, make_edge, running

PATHS = {
    "inference": "/reset_hidden",
    "gateway": "/api/auth/login",
    "loans": "/api/loans",
    "cards": "/api/cards",
    "density": "/predict",
}
# Chromium and Firefox report the relation of the sites, to other addresses only the origin.
FOREIGN = {
    "another name": {"Host": "evil.example"},
    "another name with the port": {
        "Host": "evil.example:8000",
        "Origin": "http://evil.example:8000",
    },
    "another site": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
    "a form of another site": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    "another port": {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:1"},
    "an origin": {"Origin": "https://evil.example"},
    "an origin of another port": {"Origin": "http://localhost:1"},
    "a hidden origin": {"Origin": "null"},
}
OWN = {
    "no browser": {},
    "a name of this machine": {"Host": "LOCALHOST:1"},
    "an address of this machine": {"Host": "[::1]:8000"},
    "its own page": {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Origin": "null"},
    "its own origin": {"Host": "localhost:81", "Origin": "http://localhost:81"},
    "a typed address": {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
}


def post(edge: Edge, listener: str, headers: dict[str, str]) -> httpx.Response:
    url = edge.urls()[listener] + PATHS[listener]
    return httpx.post(url, content=b"{}", headers=headers, timeout=5)


@pytest.mark.parametrize("listener", PATHS)
@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
def test_they_get_a_403_in_the_form_of_the_service(edge, front, listener, headers):
    before = len(front.reached)
    assert_error_of(post(edge, listener, headers), listener, 403, FORBIDDEN)
    assert len(front.reached) == before


def test_clients_of_the_open_inference_protocol_get_its_form(edge):
    url = edge.urls()["inference"] + "/v2/models/policy/infer"
    answer = httpx.post(url, headers={"Host": "evil.example"}, timeout=5)
    assert (answer.status_code, answer.json()) == (403, {"error": FORBIDDEN})


@pytest.mark.parametrize("listener", PATHS)
@pytest.mark.parametrize("headers", OWN.values(), ids=OWN)
def test_other_clients_pass(edge, listener, headers):
    assert post(edge, listener, headers).status_code == 200


def test_a_link_on_another_site_leads_to_a_page_but_nothing_else_is_read(edge):
    url = edge.urls()["gateway"] + "/console/"
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert httpx.get(url, headers=link, timeout=5).status_code == 200
    for mode in ("no-cors", "cors"):
        embedded = link | {"Sec-Fetch-Mode": mode}
        assert httpx.get(url, headers=embedded, timeout=5).status_code == 403
    assert httpx.get(url, headers=link | {"Host": "evil.example"}, timeout=5).status_code == 403


def test_metrics_are_not_read_under_another_name(edge):
    url = f"http://127.0.0.1:{edge.instance.ports.edge_metrics}/metrics"
    assert httpx.get(url, timeout=5).status_code == 200
    assert httpx.get(url, headers={"Host": "evil.example"}, timeout=5).status_code == 403


def test_allowed_hosts_are_the_only_ones_beside_this_machine_and_their_pages_pass(front, tmp_path):
    allowed = ("city.example", "10.0.0.1")
    with running(replace(make_edge(tmp_path, front.server_port), allowed_hosts=allowed)) as edge:
        proxied = {"Host": "City.Example:443", "Origin": "https://city.example"}
        for headers in ({}, proxied, {"Host": "10.0.0.1"}, {"Origin": "http://city.example"}):
            assert post(edge, "gateway", headers).status_code == 200
        for host in ("evil.example", "sub.city.example", "10.0.0.2"):
            assert post(edge, "gateway", {"Host": host}).status_code == 403
            assert post(edge, "gateway", {"Origin": f"https://{host}"}).status_code == 403


def test_without_allowed_hosts_a_port_that_is_open_to_others_takes_any_name_there(front, tmp_path):
    found = (each for of_one in psutil.net_if_addrs().values() for each in of_one)
    ours = [each.address for each in found if each.family is socket.AF_INET]
    if not (others := [each for each in ours if not each.startswith("127.")]):
        pytest.skip("this machine has loopback addresses only")
    named, foreign = {"Host": "city.example"}, {"Origin": "https://evil.example"}
    with running(replace(make_edge(tmp_path, front.server_port), host="0.0.0.0")) as edge:
        url = f"http://{others[0]}:{edge.instance.ports.gateway}{PATHS['gateway']}"
        assert httpx.post(url, headers=named, timeout=5).status_code == 200
        assert httpx.post(url, headers=named | foreign, timeout=5).status_code == 403
        assert post(edge, "gateway", named).status_code == 403
