"""What a serve config may say of a record service."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from deployments.customers.records.deployment import RecordOptions


def test_an_unknown_type_is_refused_with_those_that_there_are():
    with pytest.raises(ValidationError, match="'boats'; known: accounts, cards, loans"):
        RecordOptions(record="boats")


@pytest.mark.parametrize(
    ("args", "named"),
    [({}, "record"), ({"record": "loans", "recrod": "cards"}, "recrod")],
)
def test_the_type_must_be_said_and_nothing_else_may_be(args, named):
    with pytest.raises(ValidationError, match=named):
        RecordOptions.model_validate(args)
