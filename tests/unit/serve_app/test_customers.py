"""The attributes of record types that the environment sets."""

from deployments.customers import record_types
from serve_app.customers import configured
from serve_app.settings import Settings


def test_the_status_of_an_invalid_loans_update_is_a_setting_of_loans_alone(monkeypatch):
    types = record_types()
    monkeypatch.delenv("LOANS_UPDATE_VALIDATION_STATUS", raising=False)
    assert {name: configured(name, Settings()) for name in types} == types
    monkeypatch.setenv("LOANS_UPDATE_VALIDATION_STATUS", "400")
    assert types["loans"].invalid_update_status == 200
    assert configured("loans", Settings()).invalid_update_status == 400
    assert configured("cards", Settings()) == types["cards"]
