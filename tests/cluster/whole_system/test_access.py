"""Who reaches what: ports, tokens, users, pages; and what an operator sees of requests."""

import json
import os
import secrets
import socket
from typing import Any

import httpx
import psutil
import pytest

from load_tests.harness.system_under_test import SystemUnderTest
from tests.support.another_user import done_by_nobody, files_of
from tests.support.listening import listening, open_to_others
from tests.support.trace_collector import Received
from tests.support.waiting import until

JUNCTION, OBSERVATION = "300839359", [1, 0, 1, 0.4]
STEP = {"junction_id": JUNCTION, "obs_data": OBSERVATION}
INGRESS = ["", "/api", "/density", "/flow", "/api/accounts", "/api/loans", "/api/cards", "/console"]


def test_no_other_machine_reaches_any_port(sut):
    expected = sut.instance.ports.single()
    del expected["fallback_grpc"]  # there is no gRPC service

    def heard() -> set[int]:
        return {port for _, _, port in listening(sut.instance.processes())}

    until(lambda: set(expected.values()) <= heard())  # HAProxy may just be replaced by its next
    assert open_to_others(sut.instance.processes()) == []
    with socket.create_server(("0.0.0.0", 0)) as ours:  # which the same look finds
        (found,) = open_to_others([psutil.Process()])
        assert found.endswith(f" at 0.0.0.0:{ours.getsockname()[1]}")


def test_ray_asks_for_its_token(sut):
    url = f"{sut.instance.dashboard_url}/api/serve/applications/"
    assert httpx.get(url).status_code == 401
    assert httpx.get(url, headers={"Authorization": "Bearer guessed"}).status_code == 403
    assert httpx.get(url, headers=sut.instance.dashboard.token_header()).status_code == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="Only root can act as another user.")
def test_another_user_reaches_no_file_folder_or_socket(sut):
    folders = (sut.instance.data_dir, sut.instance.runtime_dir)
    for folder in folders:
        assert folder.stat().st_mode & 0o077 == 0
    found = files_of(sut.instance.processes(), *folders)
    assert {each.name for each in found if each.is_socket()} > {
        *("raylet", "plasma_store"),  # Ray's
        *("sock", "edge.sock", "inference.sock", "edge-serve.sock"),  # of both HAProxies
    }
    assert {"haproxy.cfg", "edge.cfg", "raylet.out", "supervisor.log"} < {
        each.name for each in found
    }
    assert done_by_nobody(found) == []


@pytest.mark.parametrize("place", ["edge", "front", "fallback"])
def test_the_inference_service_asks_for_its_token_on_every_way(sut, known, place):
    ports = sut.instance.ports
    port = {"edge": ports.http, "front": ports.front, "fallback": ports.fallback_http}[place]
    right = {"Authorization": f"Bearer {known['INFERENCE_TOKEN']}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        for headers in ({}, {"Authorization": "Bearer guessed"}):
            refused = client.post("/predict_action", json=STEP, headers=headers)
            assert refused.status_code == 401
            assert list(refused.json()) == ["detail"]
            assert client.get("/model_info", headers=headers).status_code == 401
        assert client.post("/predict_action", json=STEP, headers=right).status_code == 200
        assert client.get("/model_info", headers=right).status_code == 200
        for probe in ("/health", "/livez", "/readyz"):
            assert client.get(probe).status_code == 200


def test_every_page_and_every_token_has_its_headers(sut, known):
    bearer = {"Authorization": f"Bearer {known['INFERENCE_TOKEN']}"}
    with httpx.Client(headers=bearer, timeout=30) as client:
        docs = [f"{url_of(sut, each)}/docs" for each in INGRESS[:-1]]
        for page in [url_of(sut, "") + "/", url_of(sut, "/console") + "/", *docs]:
            answer = client.get(page)
            assert answer.headers["content-type"].startswith("text/html"), page
            policy = answer.headers["content-security-policy"]
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy.partition("script-src")[2].partition(";")[0]
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["x-frame-options"] == "DENY"
        login = {"username": "operator", "password": known["JWT_AUTH_PASSWORD"]}
        answer = client.post(url_of(sut, "/api") + "/auth/login", json=login)
        assert answer.headers["cache-control"] == "no-store"
        known["a token of a login"] = answer.json()["accessToken"]


def url_of(sut: SystemUnderTest, prefix: str) -> str:
    """Return where the edge has an application, without a slash at the end."""
    return sut.edge.url_of(prefix or "/").rstrip("/")


def test_login_attempts_are_counted_across_replicas(sut):
    body = {"username": "mallory", "password": "guess"}
    url = f"{url_of(sut, '/api')}/auth/login"
    # a connection each, so that both replicas are asked
    statuses = [httpx.post(url, json=body, timeout=30).status_code for _ in range(14)]
    assert statuses == [401] * 10 + [429] * 4


def test_a_new_password_revokes_tokens_on_every_replica(sut, known):
    base = url_of(sut, "/api")

    def set_password(command: str) -> dict[str, str]:
        known[f"a password of carol, {command}"] = password = secrets.token_urlsafe(24)
        sut.run("users", command, "carol", given=f"{password}\n")
        login = {"username": "carol", "password": password}
        answer = httpx.post(f"{base}/auth/login", json=login, timeout=30).raise_for_status()
        return {"Authorization": f"Bearer {answer.json()['accessToken']}"}

    def statuses(token: dict[str, str]) -> set[int]:
        # a connection each, so that both replicas are asked
        urls = [f"{base}/traffic/action"] * 8
        return {httpx.get(url, headers=token, timeout=30).status_code for url in urls}

    token = set_password("add")
    assert statuses(token) == {200}
    newer = set_password("passwd")
    until(lambda: statuses(token) == {401})
    assert statuses(newer) == {200}


WAY = [
    ("gateway", "edge"),
    ("gateway", "POST /api/traffic/action"),
    ("gateway", "POST /predict_action"),
    ("inference", "edge"),
    ("inference", "POST /predict_action"),
    ("inference", "GRU step"),
]


def test_one_trace_leads_from_the_gateway_to_the_step(gateway, collector):
    trace_id, span_id = os.urandom(16).hex(), os.urandom(8).hex()
    headers = {"traceparent": f"00-{trace_id}-{span_id}-01"}
    body = {"junctionId": JUNCTION, "observations": OBSERVATION}
    gateway.post("/traffic/action", json=body, headers=headers).raise_for_status()

    def way() -> list[Received]:
        """Follow the names of the way from the client's span on."""
        parent, found = span_id, []
        for service, name in WAY:
            here = [
                span
                for span in collector.of_trace(trace_id)
                if (span.service, span.name, span.parent_id) == (service, name, parent)
            ]
            if not here:
                break
            found += here[:1]
            parent = here[0].span_id
        return found

    until(lambda: len(way()) == len(WAY), lambda: collector.of_trace(trace_id))
    assert all(span.began <= span.ended for span in way())


def test_a_request_that_arrives_without_a_trace_is_not_traced_at_a_share_of_zero(
    gateway, collector
):
    body = {"junctionId": JUNCTION, "observations": OBSERVATION}
    for _ in range(20):
        gateway.post("/traffic/action", json=body).raise_for_status()
    assert not [span for span in list(collector.spans) if not span.parent_id], "began here"


def test_a_request_has_one_json_line_in_the_log_with_what_it_is_about(sut, inference, run_id):
    trace_id = os.urandom(16).hex()
    headers = {"X-Simulation-Run": run_id, "x-request-id": run_id}
    headers["traceparent"] = f"00-{trace_id}-00f067aa0ba902b7-01"
    inference.post("/predict_action", json=STEP, headers=headers).raise_for_status()

    def lines_of(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in sut.serve_logs(name).splitlines()]

    def lines() -> list[dict[str, Any]]:
        found = lines_of("replica_inference_Inference")
        return [line for line in found if line.get("run") == run_id]

    until(lines)
    (line,) = lines()
    place = {"application": "inference", "deployment": "inference_Inference", "levelname": "INFO"}
    request = {"method": "POST", "path": "/predict_action", "status": 200, "junction": JUNCTION}
    names = {"request_id": run_id, "trace_id": trace_id}
    assert (place | request | names).items() <= line.items()
    assert 0 < line["ms"] < 10_000
    actor = {"application": "inference", "component_name": "hidden_states", "shard": "0"}
    assert any(actor.items() <= each.items() for each in lines_of("hidden_states_inference_0"))


PREFIXES = [*INGRESS[:-1], "/durable"]
FORECASTS = ("/density", "/flow")  # without a store


def test_without_redis_all_live_and_continue_and_readiness_names_the_store(sut, inference, run_id):
    def is_ready(prefix: str, status: int, store: str | None) -> bool:
        answer = inference.get(f"{url_of(sut, prefix)}/readyz")
        checks = answer.json().get("checks", {})
        return (answer.status_code, checks.get("store")) == (status, store)

    def all_are(status: int, store: str) -> bool:
        return all(is_ready(each, status, store) for each in PREFIXES if each not in FORECASTS)

    headers = {"X-Simulation-Run": run_id}
    inference.post("/predict_action", json=STEP, headers=headers).raise_for_status()
    until(lambda: all_are(200, "ok"))
    sut.redis.kill()
    try:
        until(lambda: all_are(503, "The store does not serve."))
        for prefix in PREFIXES:
            alive = inference.get(f"{url_of(sut, prefix)}/livez")
            assert (alive.status_code, alive.json()["status"]) == (200, "alive")
        for prefix in FORECASTS:
            assert inference.get(f"{url_of(sut, prefix)}/readyz").status_code == 200
        step = inference.post("/predict_action", json=STEP, headers=headers)
        assert step.headers["x-hidden-state-step"] == "2"
    finally:
        sut.redis.start()
    until(lambda: all_are(200, "ok"))
