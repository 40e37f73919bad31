"""The customer records. All amounts are integers."""

from __future__ import annotations

from pydantic import Field

from greenwave.client.results import Form


class Record(Form):
    mobile_number: str


class Account(Form):
    account_number: int
    account_type: str
    branch_address: str


class Customer(Record):
    """A customer with their account."""

    name: str
    email: str
    account: Account = Field(alias="accountsDto")


class Loan(Record):
    """A customer's loan."""

    loan_number: str
    loan_type: str
    total_loan: int
    amount_paid: int
    outstanding_amount: int


class Card(Record):
    """A customer's card."""

    card_number: str
    card_type: str
    total_limit: int
    amount_used: int
    available_amount: int
