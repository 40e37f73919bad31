"""The endpoint table of the contract: each operation, its success and its failures."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from deployments.customers import record_types
from deployments.customers.records.api import create_app
from deployments.customers.records.service import RecordService
from tests.unit.customers.requests import (
    ARABIC_DIGIT,
    FULL_WIDTH_DIGIT,
    MOBILE,
    OTHER_MOBILE,
    Service,
    changed,
    new_customer,
)
from tests.unit.http.apps import serving

CREATED = {
    "accounts": "Account created successfully",
    "loans": "Loan created successfully",
    "cards": "Card created successfully",
}
REGISTERED = {
    "accounts": f"Customer already registered with given mobile Number {MOBILE}",
    "loans": f"Loan already registered with given mobileNumber {MOBILE}",
    "cards": f"Card already registered with given mobileNumber {MOBILE}",
}
MOBILE_UNKNOWN = {
    "accounts": "Customer not found with the given input data mobileNumber : '{}'",
    "loans": "Loan not found with the given input data mobileNumber : '{}'",
    "cards": "Card not found with the given input data mobileNumber : '{}'",
}
NUMBER_UNKNOWN = {
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


class TestLiveness:
    async def test_greets(self, service):
        answer = await service.request("GET", "/sayHello")
        assert (answer.status_code, answer.json()) == (200, "Hello World")


class TestCreate:
    async def test_answers_201_with_the_status_response(self, service):
        answer = await service.create()
        assert answer.status_code == 201
        assert answer.json() == {"statusCode": "201", "statusMsg": CREATED[service.name]}

    async def test_a_second_one_for_the_mobile_number_is_refused(self, service):
        record = await service.created()
        assert_error(service, await service.create(), 400, REGISTERED[service.name])
        assert (await service.fetch()).json() == record

    async def test_after_delete_it_is_possible_again(self, service):
        await service.created()
        await service.delete()
        assert (await service.create()).status_code == 201

    async def test_customers_get_different_numbers(self, service):
        path, _ = UNKNOWN_NUMBER[service.name]
        numbers = set()
        for mobile in range(1234567890, 1234567900):
            record = await service.created(str(mobile))
            for name in path.split("."):
                record = record[name]
            numbers.add(record)
        assert len(numbers) == 10

    async def test_account_defaults(self, accounts):
        body = await accounts.created()
        account = body.pop("accountsDto")
        number = account.pop("accountNumber")
        assert body == new_customer()
        assert account == {
            "accountType": "Savings",
            "branchAddress": "123 Main Street, New York",
        }
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

    @pytest.mark.parametrize("body", [b"", b"{nonsense", b'{"name": 1}', b"x" * 1_000_000])
    @pytest.mark.parametrize("service", ["loans", "cards"], indirect=True)
    async def test_loans_and_cards_ignore_the_body(self, service, body):
        answer = await service.request("POST", params={"mobileNumber": MOBILE}, content=body)
        assert answer.status_code == 201

    @pytest.mark.parametrize("service", ["loans", "cards"], indirect=True)
    async def test_loans_and_cards_take_the_query_not_the_body(self, service):
        body = new_customer(mobileNumber=OTHER_MOBILE)
        await service.request("POST", params={"mobileNumber": MOBILE}, json=body)
        assert (await service.fetch(MOBILE)).status_code == 200
        assert (await service.fetch(OTHER_MOBILE)).status_code == 404

    async def test_accounts_take_the_body_not_the_query(self, accounts):
        await accounts.request("POST", params={"mobileNumber": OTHER_MOBILE}, json=new_customer())
        assert (await accounts.fetch(MOBILE)).status_code == 200
        assert (await accounts.fetch(OTHER_MOBILE)).status_code == 404

    async def test_accounts_choose_the_account_themselves(self, accounts):
        sent = new_customer(accountsDto={"accountNumber": 1111111111, "accountType": "Gold"})
        assert (await accounts.request("POST", json=sent)).status_code == 201
        account = (await accounts.fetch()).json()["accountsDto"]
        assert account["accountNumber"] != 1111111111
        assert account["accountType"] == "Savings"

    async def test_accounts_keep_name_and_email_as_sent(self, accounts):
        sent = new_customer(name="  Zoë 😀 ", email="O'Brien+Zoe@Example.COM")
        assert (await accounts.request("POST", json=sent)).status_code == 201
        body = (await accounts.fetch()).json()
        assert (body["name"], body["email"]) == (sent["name"], sent["email"])


class TestFetch:
    @pytest.mark.parametrize("mobile", [MOBILE, ""])
    @pytest.mark.parametrize("operation", [Service.fetch, Service.delete])
    async def test_of_an_unknown_or_empty_mobile_number(self, service, operation, mobile):
        message = MOBILE_UNKNOWN[service.name].format(mobile)
        assert_error(service, await operation(service, mobile), 404, message)

    async def test_further_parameters_and_a_body_are_ignored(self, service):
        record = await service.created()
        answer = await service.request(
            "GET", params={"mobileNumber": MOBILE, "page": "2"}, content=b"{nonsense"
        )
        assert answer.json() == record


class TestUpdate:
    async def test_replaces_every_field(self, service):
        record = changed(await service.created(), TYPE_FIELD[service.name], "Another type")
        answer = await service.update(record)
        assert (answer.status_code, answer.json()) == (200, PROCESSED)
        assert (await service.fetch()).json() == record

    async def test_unknown_number(self, service):
        path, number = UNKNOWN_NUMBER[service.name]
        record = await service.created()
        answer = await service.update(changed(record, path, number))
        assert_error(service, answer, 404, NUMBER_UNKNOWN[service.name])
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
        assert_error(service, answer, 400, REGISTERED[service.name])
        assert (await service.fetch(MOBILE)).json() == mine
        assert (await service.fetch(OTHER_MOBILE)).json() == others

    async def test_validation_comes_before_the_look_up(self, service):
        path, number = UNKNOWN_NUMBER[service.name]
        record = changed(await service.created(), path, number)
        answer = await service.update(changed(record, TYPE_FIELD[service.name], ""))
        assert list(answer.json()) == [TYPE_FIELD[service.name]]

    async def test_unknown_members_are_ignored(self, service):
        record = await service.created()
        assert (await service.update({**record, "colour": "blue"})).status_code == 200
        assert (await service.fetch()).json() == record

    @pytest.mark.parametrize("amount", [1, 2**53 + 1, 2**63 - 1])
    async def test_large_amounts_are_kept_exactly(self, loans, amount):
        record = changed(await loans.created(), "totalLoan", amount)
        assert (await loans.update(record)).status_code == 200
        assert (await loans.fetch()).json()["totalLoan"] == amount


class TestDelete:
    async def test_removes_the_record(self, service):
        await service.created()
        answer = await service.delete()
        assert (answer.status_code, answer.json()) == (200, PROCESSED)
        assert (await service.fetch()).status_code == 404

    async def test_leaves_other_records_alone(self, service):
        await service.created(MOBILE)
        others = await service.created(OTHER_MOBILE)
        await service.delete(MOBILE)
        assert (await service.fetch(OTHER_MOBILE)).json() == others


WRONG_MOBILES = [
    "1",
    "123456789",
    "12345678901",
    "123456789a",
    "+123456789",
    " 123456789",
    "1234567890 ",
    "1234567890\n",
    "12345-7890",
    ARABIC_DIGIT * 10,
    FULL_WIDTH_DIGIT * 10,
    "²" * 10,
    "1" * 10_000,
    "'; DROP TABLE documents; --",
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
        updated = await accounts.client.put(path, json=fetched.json())
        assert (updated.status_code, updated.json()) == (200, PROCESSED)
        deleted = await accounts.client.delete(path, params=query)
        assert (deleted.status_code, deleted.json()) == (200, PROCESSED)
        unknown = await accounts.client.get(path, params=query)
        message = MOBILE_UNKNOWN["accounts"].format(MOBILE)
        assert_error(accounts, unknown, 404, message)


@pytest.mark.parametrize("name", ["accounts", "loans", "cards"])
async def test_every_operation_passes_serves_wrapper_by(store, name):
    record_type = record_types()[name]
    app = create_app(RecordService(record_type, store))
    async with (
        serving(app, record_type.base_path) as server,
        httpx.AsyncClient(base_url=server.url) as client,
    ):
        service = Service(client, record_type)
        record = await service.created()
        answers = [await service.update(record), await service.delete()]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert server.stats.ends == [(record_type.base_path, None)] * 4
