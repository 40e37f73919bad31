"""What a serve config may say of each service, and what it is told of removed keys."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from deployments.options import Options
from serve_app.rollout.services import SERVICES

OPTIONS = {service.title: service.options for service in SERVICES}
REMOVED = [
    (title, key)
    for title, options in OPTIONS.items()
    if issubclass(options, Options)
    for key in options.removed
]


@pytest.mark.parametrize("title", OPTIONS)
def test_an_unknown_key_is_refused_by_name(title):
    with pytest.raises(ValidationError, match="max_bodies"):
        OPTIONS[title].model_validate({"max_bodies": 1, "record": "loans"})


@pytest.mark.parametrize(("title", "key"), REMOVED)
def test_a_removed_key_is_refused_with_what_to_do(title, key):
    with pytest.raises(ValidationError, match=f"The option {key} was removed. (Delete|Name|Set) "):
        OPTIONS[title].model_validate({key: 1})
    assert key not in OPTIONS[title].model_fields


def test_several_removed_keys_are_named_at_once():
    with pytest.raises(ValidationError, match=r"max_body.*") as failure:
        OPTIONS["Density"].model_validate({"max_body": 1, "max_waiting": 1})
    assert failure.value.error_count() == 1
    assert "max_waiting was removed" in str(failure.value)
