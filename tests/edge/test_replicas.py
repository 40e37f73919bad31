"""An edge that goes straight to the replicas, which stand-ins for Serve's front play, too."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

import httpx
import pytest
import yaml

from load_tests.harness.shipped import ROOT
from load_tests.harness.waiting import wait_until
from serve_app.processes.edge import Edge
from serve_app.processes.edge_backends import cities_of
from serve_app.processes.replica_servers import ReplicaServerError
from tests.edge.conftest import Front, make_edge, running
from tests.edge.test_outages import PATHS, Load, assert_is_503_of_its_service, post

PREFIX = "SERVE_REPLICA_inference-Inference-"


class Replicas:
    """Replicas of the inference service behind a running edge, with Serve's front beside them."""

    def __init__(self, edge: Edge, front: Front) -> None:
        self.edge, self.front = edge, front
        self.running: dict[str, Front] = {}
        self._servers = edge.replica_servers()

    def start(self, *names: str) -> None:
        for name in names:
            self.running[PREFIX + name] = Front()
            self.running[PREFIX + name].routes = {"/": "inference"}

    def tell_the_edge(self, *names: str) -> None:
        """Give the edge the replicas of these names alone."""
        known = {PREFIX + n: f"127.0.0.1:{self.running[PREFIX + n].server_port}" for n in names}
        for _ in range(2):  # once is not settled
            self._servers.reconcile({"/": known})

    def run(self, *names: str) -> None:
        self.start(*names)
        self.tell_the_edge(*names)

    def reached(self) -> dict[str, int]:
        return {n.removeprefix(PREFIX): len(each.reached) for n, each in self.running.items()}

    def of_run(self, run: str) -> str:
        """Return the replica that a step of the run reaches."""
        before = self.reached()
        url = self.edge.urls()["inference"] + PATHS["inference"]
        answer = httpx.post(url, content=b"{}", headers={"X-Simulation-Run": run}, timeout=10)
        assert answer.status_code == 200
        (name,) = [each for each, count in self.reached().items() if count > before[each]]
        return name


@pytest.fixture
def replicas(tmp_path) -> Iterator[Replicas]:
    with closing(Front()) as front, running(make_edge(tmp_path, front.server_port)) as edge:
        replicas = Replicas(edge, front)
        yield replicas
        with ExitStack() as stack:
            for each in replicas.running.values():
                stack.enter_context(closing(each))


def test_steps_go_straight_to_a_replica_and_what_must_not_be_repeated_through_serve(replicas):
    replicas.run("a")
    url = replicas.edge.urls()["inference"]
    for path in ("/predict_action", "/reset_hidden"):
        assert httpx.post(url + path, content=b"{}").status_code == 200
    assert (replicas.reached(), replicas.front.reached) == ({"a": 2}, [])
    assert httpx.post(f"{url}/predict_actions", content=b" " * 3000).status_code == 200
    assert post(replicas.edge, "inference", body=b" " * 70_000).status_code == 200
    assert httpx.get(f"{url}/health").status_code == 200
    assert (replicas.reached(), len(replicas.front.reached)) == ({"a": 2}, 3)


def test_requests_of_another_city_go_to_its_own_replicas_in_the_same_way(tmp_path):
    two_cities = yaml.safe_load((ROOT / "configs" / "two-cities.yaml").read_text())
    cities = cities_of(two_cities)
    with (
        closing(Front()) as front,
        running(replace(make_edge(tmp_path, front.server_port), cities=cities)) as edge,
        ExitStack() as stack,
    ):
        replicas, servers = dict[str, Front](), edge.replica_servers()
        for name, route in (("n-1", "/harbour"), ("n-2", "/harbour"), ("g-1", "/harbour/api")):
            replicas[PREFIX + name] = stack.enter_context(closing(Front()))
            replicas[PREFIX + name].routes = {route: name}
        known = {name: f"127.0.0.1:{each.server_port}" for name, each in replicas.items()}
        *policies, gateway = known
        of_policy = {name: known[name] for name in policies}
        for _ in range(2):
            servers.reconcile({"/harbour": of_policy, "/harbour/api": {gateway: known[gateway]}})
        url = edge.urls()["inference"] + "/harbour"
        for path in 10 * ("/predict_action", "/reset_hidden", "/runs/a/end"):
            assert httpx.post(url + path, content=b"{}").status_code == 200
        assert sorted(len(replicas[name].reached) for name in policies) == [0, 30], "one run"
        for path in ("/api/traffic/action", "/api/auth/login"):
            assert httpx.post(url + path, content=b"{}").status_code == 200
        assert len(replicas[gateway].reached) == 2
        assert all(replicas[gateway].keys[:1]), "the edge gives a step a key"
        assert not front.reached
        assert httpx.post(f"{url}/anything", content=b"{}").status_code == 200
        assert httpx.post(f"{url}2/predict_action", content=b"{}").status_code == 200
        assert len(front.reached) == 2


def test_when_a_replica_goes_only_its_runs_move(replicas):
    names, runs = ("a", "b", "c", "d"), [f"run-{n}" for n in range(40)]
    replicas.run(*names)
    before = {run: replicas.of_run(run) for run in runs}
    assert set(before.values()) == set(names)
    for gone in names:
        replicas.tell_the_edge(*(each for each in names if each != gone))
        after = {run: replicas.of_run(run) for run in runs}
        assert gone not in after.values()
        assert all(after[run] == before[run] for run in runs if before[run] != gone)
    replicas.tell_the_edge(*names)
    assert {run: replicas.of_run(run) for run in runs} == before


def test_edges_that_heard_of_the_replicas_in_another_order_send_a_run_to_the_same(
    replicas, tmp_path
):
    names, runs = ("a", "b", "c"), [f"run-{n}" for n in range(20)]
    replicas.start(*names)
    with running(make_edge(tmp_path / "other", replicas.front.server_port)) as edge:
        other = Replicas(edge, replicas.front)
        other.running = replicas.running
        for each in reversed(names):
            other.tell_the_edge(*names[names.index(each) :])
        replicas.tell_the_edge(*names)
        homes = {run: replicas.of_run(run) for run in runs}
        assert set(homes.values()) == set(names)
        assert {run: other.of_run(run) for run in runs} == homes


def test_steps_without_a_run_stay_with_one_replica(replicas):
    replicas.run("a", "b")
    for _ in range(20):
        assert post(replicas.edge, "inference").status_code == 200
    assert sorted(replicas.reached().values()) == [0, 20]


def test_when_everything_dies_at_once_every_client_gets_an_answer(replicas):
    replicas.run("a", "b")
    outcomes: list[int] = []

    def ask() -> None:
        with httpx.Client(base_url=replicas.edge.urls()["inference"], timeout=12) as client:
            for do in ("", "slow", "slow"):
                answer = client.post("/predict_action", content=b"{}", headers={"X-Do": do})
                outcomes.append(answer.status_code)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    # all at work on kept connections
    wait_until(lambda: sum(replicas.reached().values()) >= 16, 5, "every client waits")
    for each in (*replicas.running.values(), replicas.front):
        each.close()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 3 * len(threads)
    assert set(outcomes) <= {200, 503}
    assert 503 in outcomes


def test_the_death_of_replicas_under_load_fails_no_step(replicas):
    replicas.run("a", "b")
    with Load(replicas.edge) as load:
        busy = max(replicas.running.values(), key=lambda each: len(each.reached))
        busy.close()
        load.more(100)
        assert not replicas.front.reached
        for each in replicas.running.values():
            each.close()
        load.more(100)
    assert replicas.front.reached
    assert {status for _, status in load.answers} == {200}
    assert load.longest_gap_s < 1


@pytest.mark.parametrize("do", ["drop once", "drop"])
def test_a_step_that_a_replica_drops_is_repeated_and_then_answered_by_the_edge(replicas, do):
    replicas.run("a")
    with httpx.Client(base_url=replicas.edge.urls()["inference"], timeout=10) as client:
        for _ in range(3):  # on a kept connection
            assert client.post("/predict_action", content=b"{}").status_code == 200
        (replica,) = replicas.running.values()
        replica.reached.clear()
        replica.keys.clear()
        answer = client.post("/predict_action", content=b"{} ", headers={"X-Do": do})
    if do == "drop":
        assert_is_503_of_its_service(answer, "inference", unknown=True)
    else:
        assert answer.status_code == 200
    keys = replica.keys + replicas.front.keys
    assert len(keys) > 1
    assert len(set(keys)) == 1


def test_a_port_that_another_application_has_taken_over_is_not_used(replicas):
    replicas.run("a")
    (replica,) = replicas.running.values()
    replica.close()
    wait_until(lambda: post(replicas.edge, "inference").status_code == 200, 5, "an answer")
    taken_over = Front(replica.server_port)
    with closing(taken_over):
        taken_over.routes = {"/density": "density"}
        deadline = time.monotonic() + 1.5  # several checks
        while time.monotonic() < deadline:
            assert post(replicas.edge, "inference").status_code == 200
        assert not taken_over.reached
        taken_over.routes = {"/": "inference"}
        wait_until(lambda: post(replicas.edge, "inference") and taken_over.reached, 5, "it is used")


def test_a_replica_that_is_removed_answers_what_it_has_taken_and_gets_nothing_more(replicas):
    replicas.start("a", "b")
    replicas.tell_the_edge("a")
    answers: list[httpx.Response] = []
    slow = threading.Thread(target=lambda: answers.append(post(replicas.edge, "inference", "slow")))
    slow.start()
    wait_until(lambda: replicas.reached()["a"] == 1, 5, "the request has arrived")
    replicas.tell_the_edge("b")
    for _ in range(10):
        assert post(replicas.edge, "inference").status_code == 200
    slow.join()
    assert answers[0].status_code == 200
    assert replicas.reached() == {"a": 1, "b": 10}
    replicas.tell_the_edge("b")
    replicas.tell_the_edge("a", "b")
    assert post(replicas.edge, "inference").status_code == 200


def test_a_file_that_serve_is_writing_does_not_count(replicas):
    replicas.run("a")
    replicas.edge.replica_servers().reconcile({})
    assert post(replicas.edge, "inference").status_code == 200
    assert replicas.reached() == {"a": 1}


def test_a_server_that_haproxy_refuses_is_an_error_and_the_others_are_there(replicas):
    replicas.start("a")
    servers = replicas.edge.replica_servers()
    good = f"127.0.0.1:{replicas.running[PREFIX + 'a'].server_port}"
    wanted = {"/": {PREFIX + "bad": "256.1.1.1:x1", PREFIX + "a": good}}
    servers.reconcile(wanted)
    with pytest.raises(ReplicaServerError):
        servers.reconcile(wanted)
    assert post(replicas.edge, "inference").status_code == 200
    assert replicas.reached() == {"a": 1}


def test_an_edge_that_is_away_is_an_error(tmp_path):
    servers = make_edge(tmp_path, 1).replica_servers()
    servers.reconcile({})
    with pytest.raises(OSError, match="No such file"):
        servers.reconcile({})
