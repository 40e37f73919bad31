"""The field tables and the message table of the contract: every rule, at its boundaries."""

from typing import Any

import pytest

from tests.unit.customers.requests import (
    ARABIC_DIGIT,
    FULL_WIDTH_DIGIT,
    MISSING,
    changed,
    new_customer,
)

NAME = "the length of the customer name should be between 5 and 30"
EMAIL = "Email adderess should be a valid value"
EMPTY_MOBILE = "MobileNumber cannot be null or empty"
MOBILE_CREATE = "Mobile number must be 10 digits"
MOBILE_DIGITS = "Mobile Number must be 10 digits"
TOTAL_LOAN = "Total loan amount should be greater than zero"
PAID = "Total loan amount paid should be equal or greater than zero"
OUTSTANDING = "Total outstanding amount should be equal or greater than zero"
LIMIT = "Total card limit amount should be greater than zero"
USED = "Total card amount used should be equal or greater than zero"
AVAILABLE = "Total available amount should be equal or greater than zero"

Case = tuple[str, list[Any], str]
EMPTY: list[Any] = ["", None, MISSING]
NOT_TEN = ["1", "123456789", "12345678901", "12345abcde", " 123456789", "1234567890\n"]
NOT_TEN += [ARABIC_DIGIT * 10, FULL_WIDTH_DIGIT * 10]
NOT_TEN_LONG = [0, -1234567890, 999_999_999, 10_000_000_000, 2**63 - 1]
NOT_TWELVE = ["1", "12345678901", "1234567890123", "12345678901x", ARABIC_DIGIT * 12]

CONTACT: list[Case] = [
    ("name", EMPTY, "Name cannot be null or empty"),
    ("name", ["a", "abcd", "a" * 31, "a" * 10_000], NAME),
    ("email", EMPTY, "email address cannot be null or empty"),
    ("email", ["tutor", "@eazybytes", "tutor@", "a@b@c", "tutor@eazy bytes", "a b@c.d"], EMAIL),
    ("email", [".a@b.c", "a.@b.c", "a..b@c.d", "a@.b", "a@b.", "a@b..c", "a@-b", "a@b-"], EMAIL),
    ("email", ["a@b\n", " a@b", "a@b,c", "a@" + "b" * 64, "a" * 65 + "@b", "a@b_c.d"], EMAIL),
    ("mobileNumber", EMPTY, EMPTY_MOBILE),
]
ACCOUNTS_CREATE: list[Case] = [*CONTACT, ("mobileNumber", NOT_TEN, MOBILE_CREATE)]
ACCOUNTS_UPDATE: list[Case] = [
    *CONTACT,
    ("mobileNumber", NOT_TEN, MOBILE_DIGITS),
    ("accountsDto", [None, MISSING], "AccountsDto cannot be null or empty"),
    ("accountsDto.accountNumber", [None, MISSING], "AccountNumber cannot be null or empty"),
    ("accountsDto.accountNumber", NOT_TEN_LONG, "AccountNumber must be 10 digits"),
    ("accountsDto.accountType", EMPTY, "AccountType cannot be null or empty"),
    ("accountsDto.branchAddress", EMPTY, "BranchAddress cannot be null or empty"),
]
NOT_POSITIVE = [0, -1, -(2**63), None, MISSING]
NEGATIVE = [-1, -(2**63), None, MISSING]
LOANS_UPDATE: list[Case] = [
    ("mobileNumber", EMPTY, EMPTY_MOBILE),
    ("mobileNumber", NOT_TEN, MOBILE_DIGITS),
    ("loanNumber", EMPTY, "LoanNumber cannot be null or empty"),
    ("loanNumber", NOT_TWELVE, "LoanNumber must be 12 digits"),
    ("loanType", EMPTY, "LaonType cannot be null or empty"),
    ("totalLoan", NOT_POSITIVE, TOTAL_LOAN),
    ("amountPaid", NEGATIVE, PAID),
    ("outstandingAmount", NEGATIVE, OUTSTANDING),
]
CARDS_UPDATE: list[Case] = [
    ("mobileNumber", EMPTY, EMPTY_MOBILE),
    ("mobileNumber", NOT_TEN, MOBILE_DIGITS),
    ("cardNumber", EMPTY, "Card Number cannot be null or empty"),
    ("cardNumber", NOT_TWELVE, "CardNumber must be 12 digits"),
    ("cardType", EMPTY, "Card Type cannot be null or empty"),
    ("totalLimit", NOT_POSITIVE, LIMIT),
    ("amountUsed", NEGATIVE, USED),
    ("availableAmount", NEGATIVE, AVAILABLE),
]


def spread(cases: list[Case]) -> list[Any]:
    """Yield one parameter set for each value of each case."""
    return [
        pytest.param(path, value, message, id=f"{path}-{str(value)[:20]!a}")
        for path, values, message in cases
        for value in values
    ]


@pytest.mark.parametrize(("path", "value", "message"), spread(ACCOUNTS_CREATE))
async def test_accounts_create(accounts, path, value, message):
    answer = await accounts.request("POST", json=changed(new_customer(), path, value))
    assert (answer.status_code, answer.json()) == (400, {path: message})
    assert (await accounts.fetch()).status_code == 404


@pytest.mark.parametrize(
    ("service", "status", "path", "value", "message"),
    [
        pytest.param(name, status, *each.values, id=f"{name}-{each.id}")
        for name, status, cases in (
            ("accounts", 400, ACCOUNTS_UPDATE),
            ("loans", 200, LOANS_UPDATE),
            ("cards", 400, CARDS_UPDATE),
        )
        for each in spread(cases)
    ],
    indirect=["service"],
)
async def test_update(service, status, path, value, message):
    record = await service.created()
    answer = await service.update(changed(record, path, value))
    assert (answer.status_code, answer.json()) == (status, {path: message})
    assert (await service.fetch()).json() == record


VALID: list[tuple[str, str, list[Any]]] = [
    ("accounts", "name", ["abcde", "a" * 30, "     ", "😀" * 30, "x\0\t\n\x7f", "名前名前名"]),
    ("accounts", "email", ["tutor@eazybytes", "a@b", "a.b+c_d@e-f.gh", "jörg@exämple.de"]),
    ("accounts", "email", ["a" * 64 + "@b", "a@" + "b" * 63, "o'neil@x.y", "!#$%&'*+/=?^`{|}~-@x"]),
    ("accounts", "accountsDto.accountType", ["x", " ", "y" * 50_000]),
    ("accounts", "accountsDto.branchAddress", ["x", "Straße 1\n名前"]),
    ("loans", "mobileNumber", ["0000000000", "9999999999"]),
    ("loans", "loanType", ["x"]),
    ("loans", "totalLoan", [1, 2**53 + 1, 2**63 - 1]),
    ("loans", "amountPaid", [0, 2**63 - 1]),
    ("loans", "outstandingAmount", [0, 2**63 - 1]),
    ("cards", "cardType", ["x"]),
    ("cards", "totalLimit", [1, 2**63 - 1]),
    ("cards", "amountUsed", [0, 2**63 - 1]),
    ("cards", "availableAmount", [0, 2**63 - 1]),
]


@pytest.mark.parametrize(
    ("service", "path", "value"),
    [
        pytest.param(name, path, value, id=f"{name}-{path}-{str(value)[:12]!a}")
        for name, path, values in VALID
        for value in values
    ],
    indirect=["service"],
)
async def test_values_on_the_right_side_of_a_boundary_are_kept(service, path, value):
    record = changed(await service.created(), path, value)
    answer = await service.update(record)
    assert (answer.status_code, answer.json()["statusCode"]) == (200, "200")
    assert (await service.fetch(record["mobileNumber"])).json() == record


@pytest.mark.parametrize("number", [1_000_000_000, 9_999_999_999])
async def test_account_numbers_at_both_ends_are_valid(accounts, number):
    record = changed(await accounts.created(), "accountsDto.accountNumber", number)
    answer = await accounts.update(record)
    assert answer.status_code == 404  # looked for, so it passed validation
    assert f"AccountNumber : '{number}'" in answer.json()["errorMessage"]


class TestSeveralFaults:
    async def test_accounts_update_reports_outer_and_nested_fields(self, accounts):
        record = await accounts.created()
        for path, value in (
            ("name", "x"),
            ("mobileNumber", "12"),
            ("accountsDto.accountNumber", 5),
            ("accountsDto.accountType", ""),
            ("accountsDto.branchAddress", None),
        ):
            record = changed(record, path, value)
        assert (await accounts.update(record)).json() == {
            "name": NAME,
            "mobileNumber": MOBILE_DIGITS,
            "accountsDto.accountNumber": "AccountNumber must be 10 digits",
            "accountsDto.accountType": "AccountType cannot be null or empty",
            "accountsDto.branchAddress": "BranchAddress cannot be null or empty",
        }

    async def test_a_wrong_type_outweighs_broken_rules(self, loans):
        body = {"mobileNumber": "12", "totalLoan": "100000"}
        assert (await loans.update(body)).json()["detail"] == "Failed to read request"
