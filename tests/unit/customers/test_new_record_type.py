"""A fourth type of record takes a declaration and nothing else."""

from __future__ import annotations

from typing import Annotated

from deployments.customers import record_types
from deployments.customers.records.record_type import (
    Record,
    RecordType,
    at_least,
    digits,
    not_empty,
)
from tests.unit.customers.requests import MOBILE


class Deposit(Record):
    """What a module of its own would declare."""

    depositNumber: Annotated[
        str,
        not_empty("DepositNumber cannot be null or empty"),
        digits(8, "DepositNumber must be 8 digits"),
    ]
    amount: Annotated[int, at_least(100, "At least 100")]

    @property
    def number(self) -> str:
        return self.depositNumber


DEPOSITS = RecordType(
    base_path="/api/deposits",
    record=Deposit,
    new_record=lambda mobile, number: Deposit(
        mobileNumber=mobile, depositNumber=number, amount=100
    ),
    number_length=8,
    created="Deposit created successfully",
    already_registered="Deposit of {mobile} exists",
    mobile_unknown="No deposit of {mobile}",
    number_unknown="No deposit {number}",
)


async def test_a_declaration_is_a_whole_service(make_service):
    deposits = make_service(DEPOSITS)
    record = await deposits.created()
    assert record == {
        "mobileNumber": MOBILE,
        "depositNumber": record["depositNumber"],
        "amount": 100,
    }
    assert (await deposits.create()).json()["errorMessage"] == f"Deposit of {MOBILE} exists"
    assert (await deposits.update({**record, "amount": 99})).json() == {"amount": "At least 100"}
    assert (await deposits.update({**record, "amount": 500})).status_code == 200
    assert (await deposits.fetch()).json()["amount"] == 500
    assert (await deposits.delete()).status_code == 200
    assert (await deposits.fetch()).json()["errorMessage"] == f"No deposit of {MOBILE}"
    schema = (await deposits.request("GET", "/openapi.json")).json()["components"]["schemas"]
    assert schema["Deposit"]["properties"]["amount"]["minimum"] == 100


def test_the_three_types_are_found_by_their_modules():
    assert list(record_types()) == ["accounts", "cards", "loans"]
    for name, record_type in record_types().items():
        assert record_type.name == name
        assert record_type.base_path == f"/api/{name}"
