"""What a system that `greenwave up` has started shows to others, and what its logs tell."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

import httpx
import pytest

from greenwave.client import Addresses, Client
from load_tests.chaos.injectors import kill
from load_tests.harness.system_under_test import SystemUnderTest
from tests.cluster.gateway.conftest import wait_for
from tests.support.another_user import done_by_nobody, files_of
from tests.support.disclosure import Disclosure
from tests.support.listening import listening, open_to_others

pytestmark = [pytest.mark.alone, pytest.mark.timeout(600)]

JUNCTION, OBSERVATION = "300839359", [1, 0, 1, 0.4]
STEP = {"junction_id": JUNCTION, "obs_data": OBSERVATION}
INGRESS = ["", "/api", "/density", "/flow", "/api/accounts", "/api/loans", "/api/cards", "/console"]


def test_no_other_machine_reaches_any_port(sut: SystemUnderTest) -> None:
    expected = sut.instance.ports.single()
    del expected["fallback_grpc"]  # there is no gRPC service

    def heard() -> set[int]:
        return {port for _, _, port in listening(sut.instance.processes())}

    wait_for(lambda: set(expected.values()) <= heard())  # HAProxy may just be replaced by its next
    assert open_to_others(sut.instance.processes()) == []


def test_ray_asks_for_its_token(sut: SystemUnderTest) -> None:
    url = f"{sut.instance.dashboard_url}/api/serve/applications/"
    assert httpx.get(url).status_code == 401
    assert httpx.get(url, headers={"Authorization": "Bearer guessed"}).status_code == 403
    assert httpx.get(url, headers=sut.instance.dashboard.token_header()).status_code == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="Only root can act as another user.")
def test_another_user_reaches_no_file_folder_or_socket(sut: SystemUnderTest) -> None:
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
def test_the_inference_service_asks_for_its_token_on_every_way(
    sut: SystemUnderTest, known: dict[str, str], place: str
) -> None:
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


def test_the_gateway_and_the_client_know_the_token(
    sut: SystemUnderTest, known: dict[str, str]
) -> None:
    password, token = known["JWT_AUTH_PASSWORD"], known["INFERENCE_TOKEN"]
    at = Addresses.of_edge("127.0.0.1", port_base=sut.instance.ports.http)
    with Client(at, "operator", password, inference_token=token) as client:
        assert client.run("known").act(JUNCTION, OBSERVATION).is_fallback is False
        assert client.inference.run("known").predict(JUNCTION, OBSERVATION).step == 2


def test_every_page_and_every_token_has_its_headers(
    sut: SystemUnderTest, known: dict[str, str]
) -> None:
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


def test_no_log_and_no_argument_tells_a_secret(
    sut: SystemUnderTest, known: dict[str, str], tmp_path: Path
) -> None:
    for number in range(2):
        known[f"a password of a user, {number}"] = password = secrets.token_urlsafe(24)
        sut.run("users", "passwd" if number else "add", "ann", given=password + "\n")
    known["a token of a service account"] = sut.run("tokens", "create", "controller-7").strip()
    known["a password that is wrong"] = secrets.token_urlsafe(24)
    use_secrets(sut, known)
    kill(sut.replicas("inference")[:1])
    kill(sut.replicas("gateway")[:1])
    sut.redis.stop()
    use_secrets(sut, known)
    sut.redis.start()
    assert sut.wait_until_whole()
    use_secrets(sut, known)
    sut.run("status")
    sut.run("audit", "--export", str(tmp_path / "audit.jsonl"))

    looked_for = Disclosure(
        known | {f"the signature of {n}": s[-24:] for n, s in known.items() if s.count(".") == 2}
    )
    assert looked_for.in_arguments() == []
    logs = sut.instance.runtime_dir
    assert len(list(logs.rglob("*.log"))) > 20  # they are there
    assert looked_for.in_files([logs]) == []
    sut.run("down")  # removes Ray's logs
    (said := tmp_path / "said").write_text("\n".join(sut.said))
    assert said.read_text().strip()
    assert looked_for.in_files([sut.instance.data_dir, tmp_path, sut.redis.log]) == []


def use_secrets(sut: SystemUnderTest, known: dict[str, str]) -> None:
    """Send each secret to each service in all the places where it might be sent, right or wrong."""
    inference, gateway = url_of(sut, ""), url_of(sut, "/api")
    with httpx.Client(timeout=30) as client:
        for name, secret in known.items():
            headers = {"Authorization": f"Bearer {secret}", "X-Request-Id": "r-1"}
            login = {"username": "ann" if "user" in name else "operator", "password": secret}
            client.post(f"{gateway}/auth/login", json=login)
            for url in (url_of(sut, prefix) for prefix in INGRESS):
                client.get(f"{url}/readyz", headers=headers)
                client.get(f"{url}/nothing", headers=headers)
                client.post(f"{url}/predict_action", headers=headers, content=b"{" * 70_000)
            client.post(f"{inference}/predict_action", headers=headers, json=STEP)
            body = {"junctionId": JUNCTION, "observations": OBSERVATION}
            client.post(f"{gateway}/traffic/action", headers=headers, json=body)
            client.post(f"{gateway}/traffic/reset", headers=headers)
            stream = url_of(sut, "/console") + "/stream"
            client.get(stream, headers=headers | {"Authorization": secret})
            client.get(sut.instance.dashboard_url + "/api/version", headers=headers)
            for port in (sut.instance.ports.http, sut.instance.ports.front):
                send_broken(port, secret)


def url_of(sut: SystemUnderTest, prefix: str) -> str:
    """Return where the edge has an application, without a slash at the end."""
    return sut.edge.url_of(prefix or "/").rstrip("/")


def send_broken(port: int, secret: str) -> None:
    """Send what is no HTTP, which HAProxy might tell of."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(
            f"GET / HTTP/1.1\r\nAuthorization: Bearer {secret}\r\n \0\r\n\r\n".encode()
        )
        connection.settimeout(5)
        connection.recv(100)
