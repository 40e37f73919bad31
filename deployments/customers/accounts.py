"""The accounts service: a customer with one account."""

from __future__ import annotations

from typing import Annotated

from deployments.customers.records.record_type import (
    Fields,
    Record,
    RecordType,
    digits,
    email,
    integer_of_digits,
    length,
    not_empty,
    present,
)


class Contact(Fields):
    """The customer's name and e-mail address."""

    name: Annotated[
        str,
        not_empty("Name cannot be null or empty"),
        length(5, 30, "the length of the customer name should be between 5 and 30"),
    ]
    email: Annotated[
        str,
        not_empty("email address cannot be null or empty"),
        email("Email adderess should be a valid value"),  # sic, in the contract
    ]


class NewCustomer(Contact):
    """The body of create; the contract words its rule for the mobile number differently."""

    mobileNumber: Annotated[
        str,
        not_empty("MobileNumber cannot be null or empty"),
        digits(10, "Mobile number must be 10 digits"),
    ]


class Account(Fields):
    """The customer's account."""

    accountNumber: Annotated[
        int,
        present("AccountNumber cannot be null or empty"),
        integer_of_digits(10, "AccountNumber must be 10 digits"),
    ]
    accountType: Annotated[str, not_empty("AccountType cannot be null or empty")]
    branchAddress: Annotated[str, not_empty("BranchAddress cannot be null or empty")]


class Customer(Record, Contact):
    """A customer with their account."""

    accountsDto: Annotated[Account, present("AccountsDto cannot be null or empty")]

    @property
    def number(self) -> str:
        return str(self.accountsDto.accountNumber)


def open_account(customer: NewCustomer, number: str) -> Customer:
    """Return the customer with a first account."""
    account = Account(
        accountNumber=int(number), accountType="Savings", branchAddress="123 Main Street, New York"
    )
    return Customer(**customer.model_dump(), accountsDto=account)


RECORD_TYPE = RecordType(
    base_path="/api/accounts",
    # the second has a separate application in the serve configs,
    # and a rule in configs/edge.cfg.tmpl.
    aliases=("/api/accounts/account", "/api/account"),
    record=Customer,
    create_request=NewCustomer,
    new_record=open_account,
    number_length=10,
    created="Account created successfully",
    # Sic, in the contract: the others write mobileNumber.
    already_registered="Customer already registered with given mobile Number {mobile}",
    mobile_unknown="Customer not found with the given input data mobileNumber : '{mobile}'",
    number_unknown="Account not found with the given input data AccountNumber : '{number}'",
    status_in_error_code=True,
)
