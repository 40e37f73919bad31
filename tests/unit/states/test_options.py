"""The options of the engine: what was removed or renamed is refused with advice."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from deployments.stateful.options import StateOptions


@pytest.mark.parametrize(
    ("removed", "advice"),
    [
        ({"durability": "store"}, "'store' was removed. Set durability: durable."),
        ({"durability": "store_async"}, "'store_async' was removed. Set durability: memory."),
        ({"durability": "actor"}, "'actor' was removed. Set durability: memory."),
        ({"restore_after_restart": True}, "states always continue after a restart"),
        ({"loss_bound_s": 1.0}, "snapshot_period_s bounds"),
        ({"lease_s": 10.0}, "no replica owns a state"),
    ],
)
def test_an_option_of_an_earlier_version_is_refused_with_advice(
    removed: dict[str, object], advice: str
):
    with pytest.raises(ValidationError) as refused:
        StateOptions.model_validate(removed)
    assert advice in str(refused.value)
