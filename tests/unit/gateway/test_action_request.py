"""The body of POST /traffic/action: each rule, its message, and their order."""

import contextlib
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from deployments.gateway.action_request import FLOAT32_MAX, parse_action_request
from deployments.gateway.errors import BadRequestError
from models.networks.shipped import JUNCTIONS, SHIPPED

NETWORK = replace(
    SHIPPED,
    junctions={
        each.id: replace(each, capacities=tuple(10.0 * lane for lane in range(1, each.n_lanes + 1)))
        for each in JUNCTIONS.values()
    },
)
SMALL = "300839359"


def parse(body: object) -> tuple[str, list[float]]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    query = parse_action_request(raw, network=NETWORK)
    return query.junction_id, query.obs


def message_of(body: object) -> str:
    with pytest.raises(BadRequestError) as refusal:
        parse(body)
    return str(refusal.value)


def of_small(observations: object, **more: object) -> dict[str, object]:
    return {"junctionId": SMALL, "observations": observations, **more}


NO_NUMBERS: list[Any] = ["1", True, None, [1], {}, 1e39, 10**400, math.nan]
NO_LISTS: list[Any] = ["0.5", 7, True, {"0": 1}]
COUNTS = {"observationFormat": "vehicle_counts"}
WRONG: dict[str, list[Any]] = {
    "Malformed JSON request body": [b"", b"nope", b"\xff\xfe", b'"\\ud800"', b"{} {}"],
    "junctionId is required": [{}, [], "text", None, {"junctionId": " "}, {"junctionId": 3}],
    "observations is required": [of_small(None), of_small([]), of_small(""), {"junctionId": "x"}],
    "Unknown junctionId 'nowhere'": [of_small([0] * 20, junctionId="nowhere")],
    "observations exceeds max size of 19 (received 20)": [of_small(["x"] * 20)],
    "observations must be finite numbers": [
        *(of_small([0.5, each]) for each in NO_NUMBERS),
        *(of_small(each) for each in NO_LISTS),
    ],
    "observationFormat must be normalized or vehicle_counts": [
        of_small([1], observationFormat=each) for each in ("", "counts", 1, ["normalized"])
    ],
    "observations must have exactly 8 values in the format vehicle_counts (received 9)": [
        of_small([1] * 9, **COUNTS)
    ],
    "vehicle counts must not be negative": [of_small([1, 0, 1, 0, 0, -1, 0, 0], **COUNTS)],
    "runId is not read here. A run is named by the header X-Simulation-Run, a key by"
    " Idempotency-Key": [of_small([1, 0], metadata={}, runId="monday")],
}


@pytest.mark.parametrize(
    ("message", "body"), [(message, body) for message in WRONG for body in WRONG[message]], ids=str
)
def test_a_wrong_body_is_refused_with_the_first_rule_that_it_breaks(message, body):
    assert message_of(body) == message


@pytest.mark.parametrize("extra", [{}, {"observationFormat": "normalized"}, {"metadata": {"a": 1}}])
def test_observations_are_forwarded_as_they_are_by_default(extra):
    body = {"junctionId": SMALL, "observations": [1, 0, -2.5, 300], **extra}
    assert parse(body) == (SMALL, [1.0, 0.0, -2.5, 300.0])


def test_vehicle_counts_become_shares_of_each_lane():
    counts = [0, 1, 1, 5, 5, 15, 0, 500]
    assert parse(of_small(counts, **COUNTS))[1] == [0, 1, 1, 0.5, 0.25, 0.5, 0, 1]


def test_seconds_of_pedestrian_calls_become_shares_of_two_minutes(monkeypatch):
    called = replace(NETWORK.junctions[SMALL], capacities=(10.0,), n_calls=2)
    monkeypatch.setitem(NETWORK.junctions, SMALL, called)
    _, obs = parse(of_small([1, 0, 1, 5, 30, 240], **COUNTS))
    assert obs == [1, 0, 1, 0.5, 0.25, 1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=25) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "junctionId": st.sampled_from(list(JUNCTIONS)) | JSON,
            "observations": st.lists(st.floats(), max_size=25) | JSON,
            "observationFormat": st.sampled_from(["normalized", "vehicle_counts"]) | JSON,
            "metadata": JSON,
        },
    )
)
@example({"junctionId": SMALL, "observations": [FLOAT32_MAX]})
def test_every_json_value_is_either_refused_or_safe_for_the_policy(body):
    with contextlib.suppress(BadRequestError):
        junction_id, obs = parse(body)
        assert junction_id in JUNCTIONS
        assert 1 <= len(obs) <= 19
        assert all(type(value) is float and abs(value) <= FLOAT32_MAX for value in obs)
