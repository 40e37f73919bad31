"""All of Ray, the edge and Redis are killed under load and return; then the system is stopped."""

import asyncio
import contextlib
import secrets
import socket

import httpx

from load_tests.chaos.faults import kill
from load_tests.chaos.requests import Record, Stream, new_records, sending
from load_tests.harness.system_under_test import FaultInjectionError, SystemUnderTest
from load_tests.harness.waiting import wait_until
from serve_app.processes.process_tags import Role
from tests.cluster.whole_system.conftest import whole_config
from tests.cluster.whole_system.test_access import INGRESS, JUNCTION, OBSERVATION, STEP, url_of
from tests.support.disclosure import Disclosure
from tests.support.waiting import until_async

WRITES = 300


def says_status(sut: SystemUnderTest) -> bool:
    """Run the command, and return whether it finds every part ready."""
    with contextlib.suppress(FaultInjectionError):
        return bool(sut.run("status"))
    return False


def step(sut: SystemUnderTest, service: str) -> int:
    url = f"{sut.instance.base_url}{service}/predict_action"
    headers = {"X-Simulation-Run": "kept", **sut.inference_access()}
    answer = httpx.post(url, json=STEP, headers=headers, timeout=30)
    return int(answer.raise_for_status().headers["x-hidden-state-step"])


async def test_everything_is_killed_and_returns_with_all_that_was_acknowledged(sut):
    await asyncio.to_thread(sut.prepare, whole_config())
    record, url = Record(), sut.edge.urls()["loans"]
    loans = (new_records("loans", n * 10**9, record) for n in range(1, 9))
    async with sending(Stream("loans", url, each, record) for each in loans):
        await until_async(lambda: len(record.created) >= WRITES, lambda: len(record.seen))
        for service in ("", "/durable"):
            assert [step(sut, service) for _ in range(3)] == [1, 2, 3]
        before = sut.processes("ray::ServeReplica")
        sut.redis.kill()
        kill([*sut.instance.processes(Role.RAY), *sut.processes("edge.cfg")])
    sut.redis.start()
    assert await asyncio.to_thread(sut.wait_until_whole, 400.0)
    assert before
    assert not any(each.is_running() for each in before)
    assert record.missing({"loans": url}) == []
    assert [step(sut, service) for service in ("", "/durable")] == [4, 4]


def test_no_log_and_no_argument_contains_a_secret_and_down_leaves_no_process(sut, known, tmp_path):
    for number in range(2):
        known[f"a password of a user, {number}"] = password = secrets.token_urlsafe(24)
        sut.run("users", "passwd" if number else "add", "ann", given=password + "\n")
    known["a token of a service account"] = sut.run("tokens", "create", "controller-7").strip()
    known["a password that is wrong"] = secrets.token_urlsafe(24)
    use_secrets(sut, known)
    kill(sut.replicas("gateway")[:1])
    sut.redis.stop()
    use_secrets(sut, dict(list(known.items())[-2:]))  # each of which waits for the store
    sut.redis.start()
    assert sut.wait_until_whole()
    wait_until(lambda: says_status(sut), 60, "every part is ready, now that the store is back")
    sut.run("audit", "--export", str(tmp_path / "audit.jsonl"))

    looked_for = Disclosure(
        known | {f"the signature of {n}": s[-24:] for n, s in known.items() if s.count(".") == 2}
    )
    assert looked_for.in_arguments() == []
    logs = sut.instance.runtime_dir
    assert len(list(logs.rglob("*.log"))) > 20  # they are there
    assert looked_for.in_files([logs]) == []
    sut.run("down")  # removes Ray's logs
    assert sut.instance.processes() == []
    assert not sut.instance.runtime_dir.exists()
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


def send_broken(port: int, secret: str) -> None:
    """Send what is no HTTP, which HAProxy might tell of."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(
            f"GET / HTTP/1.1\r\nAuthorization: Bearer {secret}\r\n \0\r\n\r\n".encode()
        )
        connection.settimeout(5)
        connection.recv(100)
