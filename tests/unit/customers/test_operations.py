"""The endpoint table of the contract: each operation, its success and its failures."""

from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.unit.customers.requests import (
    ARABIC_DIGIT,
    FULL_WIDTH_DIGIT,
    MOBILE,
    OTHER_MOBILE,
    Service,
    changed,
    new_customer,
)

KIND = {"accounts": "Customer", "loans": "Loan", "cards": "Card"}
OF_NUMBER = {
    "accounts": "Account not found with the given input data AccountNumber : '9999999999'",
    "loans": "Loan not found with the given input data LoanNumber : '999999999999'",
    "cards": "Card not found with the given input data CardNumber : '999999999999'",
}
PROCESSED = {"statusCode": "200", "statusMsg": "Request processed successfully"}
UNKNOWN_NUMBER: dict[str, tuple[str, Any]] = {
    "accounts": ("accountsDto.accountNumber", 9999999999),
    "loans": ("loanNumber", "999999999999"),
    "cards": ("cardNumber", "999999999999"),
}
LOAN_AMOUNTS = {"totalLoan": 100000, "amountPaid": 0, "outstandingAmount": 100000}
CARD_AMOUNTS = {"totalLimit": 100000, "amountUsed": 0, "availableAmount": 100000}
TYPE_FIELD = {"accounts": "accountsDto.accountType", "loans": "loanType", "cards": "cardType"}


def registered(name: str) -> str:
    number = "mobile Number" if name == "accounts" else "mobileNumber"
    return f"{KIND[name]} already registered with given {number} {MOBILE}"


def mobile_unknown(name: str, mobile: str) -> str:
    return f"{KIND[name]} not found with the given input data mobileNumber : '{mobile}'"


def assert_error(service: Service, answer: httpx.Response, status: int, message: str) -> None:
    """Assert that the answer is the contract's error response."""
    names = {400: "BAD_REQUEST", 404: "NOT_FOUND", 500: "INTERNAL_SERVER_ERROR"}
    code = f"{status} {names[status]}" if service.name == "accounts" else names[status]
    body = answer.json()
    time = body.pop("errortime")
    assert (answer.status_code, body) == (
        status,
        {"apiPath": f"uri=/api/{service.name}", "errorCode": code, "errorMessage": message},
    )
    assert answer.headers["content-type"] == "application/json"
    parsed = datetime.fromisoformat(time)
    assert parsed.tzinfo is None
    assert "." in time
    assert abs(datetime.now() - parsed) < timedelta(minutes=1)


class TestCreate:
    async def test_answers_201_with_the_status_response_and_400_to_a_second_one(self, service):
        answer = await service.create()
        assert answer.status_code == 201
        created = f"{service.name[:-1].capitalize()} created successfully"
        assert answer.json() == {"statusCode": "201", "statusMsg": created}
        record = (await service.fetch()).json()
        assert_error(service, await service.create(), 400, registered(service.name))
        assert (await service.fetch()).json() == record

    async def test_account_defaults(self, accounts):
        body = await accounts.created()
        account = body.pop("accountsDto")
        number = account.pop("accountNumber")
        assert body == new_customer()
        assert account == {"accountType": "Savings", "branchAddress": "123 Main Street, New York"}
        assert type(number) is int
        assert 10**9 <= number < 10**10

    @pytest.mark.parametrize(
        ("service", "number", "defaults"),
        [
            ("loans", "loanNumber", {"loanType": "Home Loan", **LOAN_AMOUNTS}),
            ("cards", "cardNumber", {"cardType": "Credit Card", **CARD_AMOUNTS}),
        ],
        indirect=["service"],
    )
    async def test_loan_and_card_defaults(self, service, number, defaults):
        body = await service.created()
        drawn = body.pop(number)
        assert body == {"mobileNumber": MOBILE, **defaults}
        assert isinstance(drawn, str)
        assert len(drawn) == 12
        assert drawn.isdecimal()

    @pytest.mark.parametrize(
        "body", [b"{nonsense", b"x" * 1_000_000, b'{"mobileNumber": "%b"}' % OTHER_MOBILE.encode()]
    )
    @pytest.mark.parametrize("service", ["loans", "cards"], indirect=True)
    async def test_loans_and_cards_take_the_query_and_ignore_the_body(self, service, body):
        query = {"mobileNumber": MOBILE, "page": "2"}
        answer = await service.request("POST", params=query, content=body)
        assert answer.status_code == 201
        assert (await service.request("GET", params=query, content=body)).status_code == 200
        assert (await service.fetch(OTHER_MOBILE)).status_code == 404

    async def test_accounts_take_the_body_not_the_query_and_choose_the_account(self, accounts):
        sent = new_customer(name="  Zoë 😀 ", email="O'Brien+Zoe@Example.COM")
        account = {"accountNumber": 1111111111, "accountType": "Gold"}
        query = {"mobileNumber": OTHER_MOBILE}
        await accounts.request("POST", params=query, json={**sent, "accountsDto": account})
        body = (await accounts.fetch(MOBILE)).json()
        made = body.pop("accountsDto")
        assert body == sent
        assert (made["accountNumber"] != 1111111111, made["accountType"]) == (True, "Savings")
        assert (await accounts.fetch(OTHER_MOBILE)).status_code == 404


class TestFetch:
    @pytest.mark.parametrize("mobile", [MOBILE, ""])
    @pytest.mark.parametrize("operation", [Service.fetch, Service.delete])
    async def test_of_an_unknown_or_empty_mobile_number(self, service, operation, mobile):
        answer = await operation(service, mobile)
        assert_error(service, answer, 404, mobile_unknown(service.name, mobile))


class TestUpdate:
    async def test_replaces_every_field_and_ignores_others(self, service):
        record = changed(await service.created(), TYPE_FIELD[service.name], "Another type")
        answer = await service.update({**record, "colour": "blue"})
        assert (answer.status_code, answer.json()) == (200, PROCESSED)
        assert (await service.fetch()).json() == record

    async def test_unknown_number(self, service):
        path, number = UNKNOWN_NUMBER[service.name]
        record = await service.created()
        answer = await service.update(changed(record, path, number))
        assert_error(service, answer, 404, OF_NUMBER[service.name])
        assert (await service.fetch()).json() == record

    async def test_may_change_the_mobile_number(self, service):
        record = changed(await service.created(), "mobileNumber", OTHER_MOBILE)
        assert (await service.update(record)).status_code == 200
        assert (await service.fetch(MOBILE)).status_code == 404
        assert (await service.fetch(OTHER_MOBILE)).json() == record
        assert (await service.create(MOBILE)).status_code == 201

    async def test_a_mobile_number_of_another_record_is_refused(self, service):
        mine, others = await service.created(MOBILE), await service.created(OTHER_MOBILE)
        answer = await service.update(changed(others, "mobileNumber", MOBILE))
        assert_error(service, answer, 400, registered(service.name))
        assert (await service.fetch(MOBILE)).json() == mine
        assert (await service.fetch(OTHER_MOBILE)).json() == others


class TestDelete:
    async def test_removes_the_record_alone(self, service):
        await service.created()
        others = await service.created(OTHER_MOBILE)
        answer = await service.delete()
        assert (answer.status_code, answer.json()) == (200, PROCESSED)
        assert (await service.fetch()).status_code == 404
        assert (await service.fetch(OTHER_MOBILE)).json() == others
        assert (await service.create()).status_code == 201


WRONG_MOBILES = [
    *("123456789", "12345678901", "123456789a", "+123456789", "1234567890 ", "1234567890\n"),
    *(ARABIC_DIGIT * 10, FULL_WIDTH_DIGIT * 10, "²" * 10, "1" * 10_000),
]


class TestMobileNumberQuery:
    @pytest.mark.parametrize("mobile", WRONG_MOBILES)
    async def test_not_ten_digits(self, service, mobile):
        message = "{}.mobileNumber: Mobile number must be 10 digits"
        assert_error(
            service, await service.fetch(mobile), 500, message.format("fetchAccountDetails")
        )
        assert_error(
            service, await service.delete(mobile), 500, message.format("deleteAccountDetails")
        )

    @pytest.mark.parametrize("mobile", ["", *WRONG_MOBILES])
    @pytest.mark.parametrize("service", ["loans", "cards"], indirect=True)
    async def test_not_ten_digits_at_creation(self, service, mobile):
        message = "createAccount.mobileNumber: Mobile number must be 10 digits"
        assert_error(service, await service.create(mobile), 500, message)

    async def test_given_twice_nothing_is_chosen(self, service):
        record = await service.created()
        twice = [("mobileNumber", MOBILE), ("mobileNumber", OTHER_MOBILE)]
        for method, operation in (("GET", "fetch"), ("DELETE", "delete")):
            answer = await service.request(method, params=twice)
            message = f"{operation}AccountDetails.mobileNumber: Mobile number must be 10 digits"
            assert_error(service, answer, 500, message)
        assert (await service.fetch()).json() == record


class TestAliases:
    @pytest.mark.parametrize("probe", ["livez", "readyz"])
    async def test_have_the_probes_too_for_the_application_at_one_of_them(self, accounts, probe):
        assert (await accounts.client.get(f"/api/account/{probe}")).status_code == 200

    @pytest.mark.parametrize("path", ["/api/accounts/account", "/api/account"])
    async def test_answer_like_the_base_path_themselves(self, accounts, path):
        query = {"mobileNumber": MOBILE}
        created = await accounts.client.post(path, json=new_customer())
        assert (created.status_code, created.json()["statusCode"]) == (201, "201")
        fetched = await accounts.client.get(path, params=query)
        assert fetched.json() == (await accounts.fetch()).json()
        assert (await accounts.client.put(path, json=fetched.json())).json() == PROCESSED
        assert (await accounts.client.delete(path, params=query)).json() == PROCESSED
        unknown = await accounts.client.get(path, params=query)
        assert_error(accounts, unknown, 404, mobile_unknown("accounts", MOBILE))
