"""The body of POST /traffic/action: each rule, its message, and their order."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

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


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nope", b'{"junctionId": }', b"\xff\xfe", b'"\\ud800"', b"[" * 5000, b"{} {}"],
)
def test_malformed_json(body):
    assert message_of(body) == "Malformed JSON request body"


@pytest.mark.parametrize(
    "body", [{}, [], "text", 7, None, {"junctionId": None}, {"junctionId": " "}, {"junctionId": 3}]
)
def test_junction_id_is_required(body):
    assert message_of(body) == "junctionId is required"


@pytest.mark.parametrize("junction_id", [SMALL, "nowhere"])
@pytest.mark.parametrize("observations", [..., None, [], ""])
def test_observations_are_required_whatever_the_junction(junction_id, observations):
    body = {"junctionId": junction_id, "observations": observations}
    if observations is ...:
        del body["observations"]
    assert message_of(body) == "observations is required"


def test_an_unknown_junction_is_named_before_the_size_is_looked_at():
    body = {"junctionId": "nowhere", "observations": [0] * 20}
    assert message_of(body) == "Unknown junctionId 'nowhere'"


def test_the_size_is_looked_at_before_the_values():
    body = {"junctionId": SMALL, "observations": ["x"] * 20}
    assert message_of(body) == "observations exceeds max size of 19 (received 20)"


@pytest.mark.parametrize(
    "value",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e400",
        "1e39",
        "9" * 400,
        '"1"',
        "true",
        "null",
        "[1]",
        "{}",
    ],
)
def test_observations_must_be_finite_numbers(value):
    body = f'{{"junctionId": "{SMALL}", "observations": [0.5, {value}]}}'.encode()
    assert message_of(body) == "observations must be finite numbers"


@pytest.mark.parametrize("observations", ["0.5", 7, True, {"0": 1}])
def test_observations_must_be_an_array(observations):
    body = {"junctionId": SMALL, "observations": observations}
    assert message_of(body) == "observations must be finite numbers"


@pytest.mark.parametrize("observation_format", ["", "counts", 1, True, ["normalized"], {}])
def test_an_unknown_format_is_refused(observation_format):
    body = {"junctionId": SMALL, "observations": [1], "observationFormat": observation_format}
    assert message_of(body) == "observationFormat must be normalized or vehicle_counts"


@pytest.mark.parametrize("extra", [{}, {"observationFormat": "normalized"}, {"metadata": {"a": 1}}])
def test_observations_are_forwarded_as_they_are_by_default(extra):
    body = {"junctionId": SMALL, "observations": [1, 0, -2.5, 300], **extra}
    assert parse(body) == (SMALL, [1.0, 0.0, -2.5, 300.0])


def test_vehicle_counts_become_shares_of_each_lane():
    counts = [0, 1, 1, 5, 5, 15, 0, 500]
    body = {"junctionId": SMALL, "observations": counts, "observationFormat": "vehicle_counts"}
    assert parse(body)[1] == [0, 1, 1, 0.5, 0.25, 0.5, 0, 1]


def test_seconds_of_pedestrian_calls_become_shares_of_two_minutes(monkeypatch):
    called = replace(NETWORK.junctions[SMALL], capacities=(10.0,), n_calls=2)
    monkeypatch.setitem(NETWORK.junctions, SMALL, called)
    body = {"junctionId": SMALL, "observations": [1, 0, 1, 5, 30, 240]}
    _, obs = parse(body | {"observationFormat": "vehicle_counts"})
    assert obs == [1, 0, 1, 0.5, 0.25, 1]


@pytest.mark.parametrize("length", [7, 9, 19])
def test_vehicle_counts_need_the_junctions_own_length(length):
    body = {
        "junctionId": SMALL,
        "observations": [1] * length,
        "observationFormat": "vehicle_counts",
    }
    assert message_of(body) == (
        f"observations must have exactly 8 values in the format vehicle_counts (received {length})"
    )


def test_a_negative_vehicle_count_is_refused():
    body = {
        "junctionId": SMALL,
        "observations": [1, 0, 1, 0, 0, -1, 0, 0],
        "observationFormat": "vehicle_counts",
    }
    assert message_of(body) == "vehicle counts must not be negative"


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


@given(st.binary(max_size=200))
def test_no_bytes_break_the_parser(body):
    with pytest.raises(BadRequestError):
        parse(body)
