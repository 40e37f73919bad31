"""The attributes of record types that the environment sets."""

import pytest

from deployments.customers import record_types
from serve_app.customers import configured
from serve_app.settings import Settings


@pytest.mark.parametrize("name", record_types())
def test_without_a_word_of_the_environment_a_type_is_as_it_declares(name, monkeypatch):
    monkeypatch.delenv("LOANS_UPDATE_VALIDATION_STATUS", raising=False)
    assert configured(name, Settings()) == record_types()[name]


def test_the_status_of_an_invalid_loans_update_is_a_setting_of_loans_alone(monkeypatch):
    monkeypatch.setenv("LOANS_UPDATE_VALIDATION_STATUS", "400")
    assert record_types()["loans"].invalid_update_status == 200
    assert configured("loans", Settings()).invalid_update_status == 400
    assert configured("cards", Settings()) == record_types()["cards"]
