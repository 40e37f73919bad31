"""Options of the inference service in a serve config."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from deployments.inference.options import InferenceOptions


@pytest.mark.parametrize(
    "args",
    [{"lease": 2.0}, {"shards": 0}, {"max_states": 0}, {"durability": "disk"}],
    ids=str,
)
def test_an_unknown_key_or_a_value_out_of_range_is_refused_by_name(args):
    (name,) = args
    with pytest.raises(ValidationError, match=name):
        InferenceOptions.model_validate(args)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("strict", "Set durability: durable"),
        ("snapshots", "copies are always kept"),
        ("restore_after_restart", "states always continue"),
        ("lease_s", "no replica owns a state"),
        ("shared_patience_s", "no request waits"),
    ],
)
def test_an_option_of_an_earlier_version_is_refused_with_what_to_do(name, hint):
    with pytest.raises(ValidationError, match=rf"{name}(.|\n)*{hint}"):
        InferenceOptions.model_validate({name: True})
