"""What a serve config may say of the forecasts."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from deployments.density.service import DensityOptions
from deployments.flow.service import FlowOptions
from deployments.forecast.options import ForecastOptions


@pytest.mark.parametrize("options", [DensityOptions, FlowOptions])
@pytest.mark.parametrize(
    "args", [{"max_bodies": 1}, {"max_body": 1023}, {"max_waiting": 0}], ids=str
)
def test_an_unknown_key_or_a_value_out_of_range_is_refused_by_name(
    options: type[ForecastOptions], args: dict[str, int]
) -> None:
    (name,) = args
    with pytest.raises(ValidationError, match=name):
        options.model_validate(args)


def test_a_flow_request_may_be_longer_than_a_density_request() -> None:
    assert FlowOptions().max_body > DensityOptions().max_body
