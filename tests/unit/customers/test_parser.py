"""The body parser: properties over generated input."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.customers import record_types
from deployments.customers.records.errors import InvalidFields, MalformedBody
from deployments.customers.records.json_body import INT64_MAX, INT64_MIN, parse_json_object

unhurried = settings(deadline=None)  # a busy machine is no failure

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
INT64 = st.integers(INT64_MIN, INT64_MAX)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | INT64 | FINITE | TEXT,
    lambda children: st.lists(children) | st.dictionaries(TEXT, children),
    max_leaves=20,
)
OBJECTS = st.dictionaries(TEXT, JSON)


@unhurried
@given(OBJECTS)
def test_every_json_object_is_read_as_it_is(members):
    assert parse_json_object(json.dumps(members).encode()) == members
    assert parse_json_object(json.dumps(members, ensure_ascii=False).encode()) == members


@unhurried
@given(JSON.filter(lambda value: not isinstance(value, dict)))
def test_every_other_json_value_is_refused(value):
    with pytest.raises(MalformedBody):
        parse_json_object(json.dumps(value).encode())


@unhurried
@given(st.binary())
def test_any_bytes_are_an_object_or_refused(body):
    try:
        members = parse_json_object(body)
    except MalformedBody:
        return
    assert members == json.loads(body)


@unhurried
@given(st.sampled_from(sorted(record_types())), OBJECTS)
def test_any_object_is_a_record_or_refused(name, members):
    record = record_types()[name].record
    with contextlib.suppress(InvalidFields, MalformedBody):
        record.read(members)
