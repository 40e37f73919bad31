"""The demo finds the running system, names what is missing, and reports its outages."""

import io
import json
from collections.abc import Mapping

import pytest

from greenwave.client import Client
from greenwave.client.call import NoReply, Reply, Send
from lab.sim.metrics import Metrics
from serve_app.demo.connect import counts_for, credentials_of, prepare
from serve_app.demo.report import MAX_QUEUES, comparison_rows
from serve_app.errors import CommandError
from serve_app.settings import Settings
from tests.unit.greenwave.client.play import REFUSED, Exchanges, answer, granted, text
from tests.unit.serve_app.demo.test_gateway_controller import scenario_of

CENTER = "joinedS_265580996_300839357"
HEALTHY = {"status": "healthy", "inferenceService": "up", "timestamp": 1}
DECISION = {
    "junctionId": CENTER,
    "predictedAction": 1,
    "signalState": "RED",
    "timestamp": 1,
    "status": "success",
}


USABLE = {
    "/traffic/health": answer(body=HEALTHY),
    "/auth/login": granted(),
    "/traffic/action": answer(body=DECISION),
    "/traffic/reset": answer(body=HEALTHY),
}
UNKNOWN = answer(400, {"message": "Unknown junctionId 'pier'"})


def prepare_with(answers: Mapping[str, Reply | NoReply], safely: bool = False) -> dict[str, Send]:
    """Return what is asked, by its path."""
    asked: dict[str, Send] = {}

    async def reply(send: Send) -> Reply | NoReply:
        path = send.url.removeprefix("http://service/api")
        asked[path] = send
        return answers[path]

    with Client("http://service", "ann", "secret", exchange=Exchanges(reply)) as client:
        prepare(client, "run-1", scenario_of(safely), "http://service")
    return asked


def test_a_healthy_service_is_reset_before_the_run():
    assert [*prepare_with(USABLE)] == [*USABLE]
    probed = prepare_with(USABLE, safely=True)["/traffic/action"]
    assert json.loads(probed.body or b"")["shown"]["greenSeconds"] == 0.0


@pytest.mark.parametrize(
    ("path", "given", "message"),
    [
        ("/traffic/health", REFUSED, "No service answers at http://service.*Start it with"),
        ("/traffic/health", answer(503, HEALTHY | {"status": "degraded"}), "status degraded"),
        ("/traffic/health", text(200), "is not Greenwave"),
        ("/auth/login", answer(401), "JWT_AUTH_USERNAME"),
        ("/traffic/action", UNKNOWN, "refuses a request for this network: .*Unknown junctionId"),
    ],
)
def test_a_service_that_cannot_be_used_is_named_before_the_run(path, given, message):
    with pytest.raises(CommandError, match=message):
        prepare_with(USABLE | {path: given})


def test_demo_without_a_user_names_what_to_set(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(CommandError, match="JWT_AUTH_USERNAME"):
        credentials_of(Settings(data_dir=tmp_path))


def test_a_policy_that_was_trained_with_other_counts_is_named_before_the_run():
    sizes = dict.fromkeys(("input_shape", "hidden_dim", "n_actions", "n_agents"), 1)
    info = sizes | {"architecture": "GRU", "obs_agent_id": True, "junctions": {}, "counts": "all"}

    async def served(_: Send) -> Reply:
        return answer(body=info)

    with Client("http://service", "ann", "secret", exchange=Exchanges(served)) as client:
        assert counts_for(client, None, "http://service") == "all"
        assert counts_for(client, "all", "http://service") == "all"
        with pytest.raises(CommandError, match="trained with --counts all, but this run has"):
            counts_for(client, "standing", "http://service")


def test_rows_hold_one_value_per_controller_in_order_and_the_longest_queues():
    queues = {f"j{number}": float(number) for number in range(100)}
    results = [Metrics(3.0, 1.0, 2.0, 10, 9, queues), Metrics(7.0, 5.0, 6.0, 10, 8, queues)]
    rows = dict(comparison_rows(results))
    assert rows["time loss (s)"] == [3.0, 7.0]
    shown = [label for label in rows if label.startswith("queue")]
    assert (len(shown), shown[0], rows[shown[0]]) == (MAX_QUEUES, "queue j99", [99.0, 99.0])
