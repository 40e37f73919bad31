"""The body parser: properties over generated input."""

from __future__ import annotations

import contextlib
import json
import math

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
@given(OBJECTS, TEXT, st.sampled_from([math.nan, math.inf, -math.inf, 2**63, -(2**63) - 1]))
def test_one_illegal_number_anywhere_is_refused(members, key, number):
    with pytest.raises(MalformedBody):
        parse_json_object(json.dumps({**members, key: [{"x": number}]}).encode())


@unhurried
@given(OBJECTS, st.integers(0), st.integers(1))
def test_a_body_that_was_cut_off_is_refused(members, start, lost):
    body = json.dumps(members).encode()
    with pytest.raises(MalformedBody):
        parse_json_object(body[: max(0, len(body) - 1 - lost % len(body))])


@unhurried
@given(st.sampled_from(sorted(record_types())), OBJECTS)
def test_any_object_is_a_record_or_refused(name, members):
    record = record_types()[name].record
    with contextlib.suppress(InvalidFields, MalformedBody):
        record.read(members)


@unhurried
@given(
    mobile=st.from_regex(r"[0-9]{10}", fullmatch=True),
    number=st.from_regex(r"[0-9]{12}", fullmatch=True),
    loan_type=TEXT.filter(bool),
    total=st.integers(1, INT64_MAX),
    paid=st.integers(0, INT64_MAX),
)
def test_a_valid_loan_survives_reading_and_writing(mobile, number, loan_type, total, paid):
    members = {
        "mobileNumber": mobile,
        "loanNumber": number,
        "loanType": loan_type,
        "totalLoan": total,
        "amountPaid": paid,
        "outstandingAmount": paid,
    }
    loan = record_types()["loans"].record.read(parse_json_object(json.dumps(members).encode()))
    assert json.loads(loan.model_dump_json()) == members
