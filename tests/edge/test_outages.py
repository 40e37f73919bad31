"""What clients see at the edge while Serve, or a part of it, is away."""

from __future__ import annotations

import itertools
import threading
import time

import httpx
import pytest

from deployments.stateful.row import RECEIPTS
from load_tests.harness.free_ports import free_port
from serve_app.processes.edge import Edge
from tests.edge.conftest import ROUTES, Front, assert_error_of, make_edge, running
from tests.support.waiting import until

PATHS = {
    "inference": "/predict_action",
    "gateway": "/api/traffic/action",
    "loans": "/api/loans",
    "cards": "/api/cards",
    "density": "/predict",
}
FEW_BYTES = 2048  # of a batch to which the edge gives a key
UNKNOWN = "The request may have been carried out or not"


def post(
    edge: Edge, listener: str, do: str = "", key: str | None = None, body: bytes = b"{}"
) -> httpx.Response:
    headers = {"X-Do": do} | ({"Idempotency-Key": key} if key else {})
    url = edge.urls()[listener] + PATHS[listener]
    return httpx.post(url, content=body, headers=headers, timeout=10)


def assert_is_503_of_its_service(answer: httpx.Response, listener: str, unknown: bool) -> None:
    assert answer.headers["retry-after"] == "1"
    unknown = unknown and listener != "density"  # a forecast has no effect that could be in doubt
    message, code = "Service unavailable", answer.headers.get("x-error-code")
    if listener in ("inference", "density"):
        assert code == ("outcome_unknown" if unknown else "overloaded")
    more = {"code": code} if listener == "inference" else {}
    in_problem = None if listener in ("loans", "cards") else message
    assert_error_of(answer, listener, 503, UNKNOWN if unknown else in_problem, **more)


@pytest.mark.parametrize("listener", PATHS)
@pytest.mark.parametrize("do", ["no route", "overloaded"])
def test_what_serve_refused_is_a_503_in_the_form_of_the_service(edge, listener, do):
    assert_is_503_of_its_service(post(edge, listener, do), listener, unknown=False)


@pytest.mark.parametrize("listener", PATHS)
def test_what_the_parser_of_a_replica_refuses_is_a_400_in_the_form_of_the_service(edge, listener):
    answer = post(edge, listener, "not parsed")
    assert_error_of(answer, listener, 400, "The request is not valid HTTP")


@pytest.mark.parametrize("listener", PATHS)
@pytest.mark.parametrize("do", ["replica died", "drop"])
def test_what_got_lost_on_its_way_is_a_503_that_does_not_say_that_nothing_was_done(
    edge, listener, do
):
    assert_is_503_of_its_service(post(edge, listener, do), listener, unknown=True)


@pytest.mark.parametrize("listener", PATHS)
@pytest.mark.parametrize(
    ("do", "status"), [("not found", 404), ("defect", 500), ("not ready", 503)]
)
def test_a_services_own_errors_pass_as_they_are(edge, listener, do, status):
    answer = post(edge, listener, do)
    assert (answer.status_code, answer.json()) == (status, {"own": do})


def test_an_unanswered_request_is_given_up(edge):
    started = time.monotonic()
    assert_is_503_of_its_service(post(edge, "inference", "hang"), "inference", unknown=True)
    assert time.monotonic() - started < 9.0


class TestRepetition:
    @pytest.fixture(autouse=True)
    def forget(self, front):
        front.reached.clear()
        front.keys.clear()

    @pytest.mark.parametrize("key", ["k", None], ids=["key", "no key"])
    @pytest.mark.parametrize(
        ("listener", "method", "path", "length"),
        [
            ("inference", "POST", "/predict_action", 65_536),  # the longest body of its route
            ("inference", "POST", "/predict_actions", FEW_BYTES),
            ("inference", "POST", "/reset_hidden", 0),
            ("inference", "DELETE", "/runs/monday", 0),
            ("inference", "POST", "/runs/monday/fork", 0),
            ("inference", "PUT", "/runs/monday/state", 0),
            ("gateway", "POST", "/api/traffic/action", 10_000),
            ("gateway", "POST", "/api/traffic/reset", 0),
            ("gateway", "GET", "/api/traffic/action", 0),
        ],
    )
    def test_what_changes_a_run_is_sent_again_with_the_key_that_it_has_or_gets(
        self, edge, front, listener, method, path, length, key
    ):
        headers = {"X-Do": "drop once"} | ({"Idempotency-Key": key} if key else {})
        url = edge.urls()[listener] + path
        answer = httpx.request(method, url, headers=headers, content=b" " * length)
        assert (answer.status_code, len(front.reached)) == (200, 2)
        (used,) = set(front.keys)
        assert used == key if key else len(used) > 30

    @pytest.mark.parametrize(
        ("listener", "method", "path"),
        [
            *((listener, "GET", path) for listener, path in PATHS.items()),
            ("gateway", "POST", "/api/auth/login"),
            ("density", "POST", "/predict"),
            ("density", "POST", "/forecast"),
        ],
    )
    def test_so_is_what_may_be_done_twice(self, edge, front, listener, method, path):
        url = edge.urls()[listener] + path
        answer = httpx.request(method, url, headers={"X-Do": "drop once"}, timeout=10)
        assert (answer.status_code, len(front.reached)) == (200, 2)

    def test_steps_get_different_keys(self, edge, front):
        for _ in range(2):
            post(edge, "inference")
        assert len(set(front.keys)) == 2

    def test_many_steps_are_sent_again_with_their_key_and_once_without(self, edge, front):
        url, content = edge.urls()["inference"] + "/predict_actions", b" " * (FEW_BYTES + 1)
        keyed = {"X-Do": "drop once", "Idempotency-Key": "k"}
        assert httpx.post(url, headers=keyed, content=content).status_code == 200
        answer = httpx.post(url, headers={"X-Do": "drop"}, content=content)
        assert_is_503_of_its_service(answer, "inference", unknown=True)
        assert front.keys == ["k", "k", None]

    def test_few_steps_are_fewer_than_the_keys_that_a_state_remembers(self, edge):
        shortest = '{"junction_id":"x","obs_data":[]},'
        assert f"{{ req.body_size le {FEW_BYTES} }}" in edge.render()
        assert FEW_BYTES / len(shortest) < RECEIPTS

    @pytest.mark.parametrize(
        ("listener", "path"),
        [
            ("gateway", "/api/accounts/create"),
            ("loans", "/api/loans"),
            ("cards", "/api/cards"),
        ],
    )
    def test_any_other_request_is_sent_once_and_answered_on_a_kept_connection_too(
        self, edge, front, listener, path
    ):
        headers = {"X-Do": "drop once", "Idempotency-Key": "k"}
        with httpx.Client(base_url=edge.urls()[listener], timeout=10) as client:
            assert client.get(path).status_code == 200
            answer = client.post(path, headers=headers)
        assert_is_503_of_its_service(answer, listener, unknown=True)
        assert front.reached.count(f"POST {path}") == 1

    def test_a_step_whose_body_the_edge_does_not_hold_wholly_is_sent_once(self, edge, front):
        answer = post(edge, "inference", "drop once", key="k", body=b" " * 100_000)
        assert_is_503_of_its_service(answer, "inference", unknown=True)
        assert len(front.reached) == 1


class Load:
    """Steps without keys, one after the other, from four clients at once."""

    def __init__(self, edge: Edge) -> None:
        self.url = edge.urls()["inference"] + "/predict_action"
        self.answers: list[tuple[float, int]] = []  # when received, status
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work) for _ in range(4)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        self.more(50)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def more(self, n_answers: int) -> None:
        target = len(self.answers) + n_answers
        until(lambda: len(self.answers) >= target, lambda: len(self.answers), 10)

    def _work(self) -> None:
        with httpx.Client(timeout=10) as client:
            while not self._stop.wait(0.005):
                status = client.post(self.url, json={}).status_code
                self.answers.append((time.monotonic(), status))

    @property
    def longest_gap_s(self) -> float:
        times = sorted(time for time, _ in self.answers)
        return max(later - earlier for earlier, later in itertools.pairwise(times))


def test_the_python_proxy_answers_until_the_front_is_back_and_no_request_fails(tmp_path):
    front, fallback = Front(), Front()
    edge = make_edge(tmp_path, front.server_port, fallback.server_port)
    with running(edge), Load(edge) as load:
        assert not fallback.reached
        front.close()
        load.more(100)
        assert fallback.reached
        assert load.longest_gap_s < 1
        front = Front(front.server_port)
        until(lambda: front.reached)
    front.close()
    fallback.close()
    assert {status for _, status in load.answers} == {200}


def test_requests_are_held_while_everything_is_away_for_a_second(tmp_path):
    front = Front()
    with running(make_edge(tmp_path, front.server_port)) as edge, Load(edge) as load:
        front.close()
        time.sleep(1)
        front = Front(front.server_port)
        load.more(50)
    front.close()
    assert {status for _, status in load.answers} == {200}
    assert load.longest_gap_s < 2


def test_the_open_inference_protocol_has_its_own_form_of_errors(edge):
    url = f"{edge.urls()['inference']}/v2/models/policy/infer"
    answer = httpx.post(url, headers={"X-Do": "no route"}, timeout=10)
    assert answer.status_code == 503
    assert answer.json() == {"error": "Service unavailable", "code": "overloaded"}


def test_an_outage_that_lasts_gets_a_503_at_once(tmp_path):
    answers: dict[str, httpx.Response] = {}

    def are_quick() -> bool:
        started = time.monotonic()
        answers.update({listener: post(edge, listener) for listener in PATHS})
        return time.monotonic() - started < 0.5

    with running(make_edge(tmp_path, free_port())) as edge:
        until(are_quick)
    for listener, answer in answers.items():
        assert_is_503_of_its_service(answer, listener, unknown=False)


def test_a_step_that_was_tried_in_vain_does_not_say_that_nothing_was_done(tmp_path):
    front = Front()
    with running(make_edge(tmp_path, front.server_port)) as edge:
        assert post(edge, "inference").status_code == 200
        front.close()
        answer = post(edge, "inference")
    assert answer.status_code == 503
    assert answer.headers["x-error-code"] == answer.json()["code"] == "outcome_unknown"


def test_a_service_that_serve_does_not_know_yet_is_unavailable_and_the_others_are_there(tmp_path):
    front = Front()
    front.routes = {"/": "inference"}
    with running(make_edge(tmp_path, front.server_port)) as edge:
        until(lambda: post(edge, "gateway").status_code == 503)
        assert_is_503_of_its_service(post(edge, "gateway"), "gateway", unknown=False)
        assert post(edge, "inference").status_code == 200
        front.routes = ROUTES
        until(lambda: post(edge, "gateway").status_code == 200)
    front.close()
