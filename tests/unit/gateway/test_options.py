"""What a serve config may say of the gateway."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from deployments.gateway.options import GatewayOptions


@pytest.mark.parametrize(
    "args",
    [
        {"deadline": 2.0},
        {"deadline_s": 0},
        {"deadline_s": 60.1},
        {"fallback": "green"},
        {"plan_time_zone": "Mars/Olympus"},
        {"plan_time_zone": "../UTC"},
        {"plan_time_zone": ""},
    ],
    ids=lambda args: next(iter(args)),
)
def test_an_unknown_key_or_a_value_out_of_range_is_refused_by_name(args):
    (name,) = args
    with pytest.raises(ValidationError, match=name):
        GatewayOptions.model_validate(args)
