"""The keys that a serve config may set, and the refusal of unknown and removed ones."""

import pytest
from pydantic import ValidationError

from serve_app.rollout.services import SERVICES

OPTIONS = {service.title: service.options for service in SERVICES}
USER_CONFIGS = {
    f"{service.title}, user_config": service.user_config
    for service in SERVICES
    if service.user_config is not None
}
ALL = OPTIONS | USER_CONFIGS
REMOVED = [(title, key) for title, options in ALL.items() for key in options.removed]


@pytest.mark.parametrize("title", OPTIONS)
def test_an_unknown_key_is_refused_by_name(title):
    with pytest.raises(ValidationError, match="max_bodies"):
        OPTIONS[title].model_validate({"max_bodies": 1, "record": "loans"})


@pytest.mark.parametrize(
    ("title", "args"),
    [
        *(("Gateway", {"deadline_s": each}) for each in (0, 60.1)),
        ("Gateway", {"fallback": "green"}),
        *(("Gateway", {"plan_time_zone": each}) for each in ("Mars/Olympus", "../UTC", "")),
        *(("Inference", {each: 0}) for each in ("shards", "max_states")),
        *(("Inference", {"durability": each}) for each in ("disk", "store")),
        ("Customer records", {"record": "boats"}),
        ("Customer records", {}),
    ],
    ids=str,
)
def test_a_value_out_of_range_and_one_that_is_missing_are_refused_by_name(title, args):
    with pytest.raises(ValidationError, match=next(iter(args), "record")):
        OPTIONS[title].model_validate(args)


@pytest.mark.parametrize(("title", "key"), REMOVED)
def test_a_removed_key_is_refused_with_what_to_do(title, key):
    with pytest.raises(ValidationError, match=f"The option {key} was removed. (Delete|Name|Set) "):
        ALL[title].model_validate({key: 1})
    assert key not in ALL[title].model_fields


def test_several_removed_keys_are_named_at_once():
    with pytest.raises(ValidationError, match=r"lease_s .* loss_bound_s") as failure:
        OPTIONS["Inference"].model_validate({"lease_s": 1, "loss_bound_s": 1})
    assert failure.value.error_count() == 1
