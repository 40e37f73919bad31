"""The loans service: a customer's loan."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from deployments.customers.records.record_type import (
    Record,
    RecordType,
    at_least,
    digits,
    not_empty,
)

NEW_LOAN_TOTAL = 100_000


class Loan(Record):
    """A customer's loan; amounts are integers."""

    loanNumber: Annotated[
        str,
        not_empty("LoanNumber cannot be null or empty"),
        digits(12, "LoanNumber must be 12 digits"),
    ]
    loanType: Annotated[str, not_empty("LaonType cannot be null or empty")]  # sic, in the contract
    totalLoan: Annotated[int, at_least(1, "Total loan amount should be greater than zero")]
    amountPaid: Annotated[
        int, at_least(0, "Total loan amount paid should be equal or greater than zero")
    ]
    outstandingAmount: Annotated[
        int, at_least(0, "Total outstanding amount should be equal or greater than zero")
    ]

    @property
    def number(self) -> str:
        return self.loanNumber


def open_loan(mobile_number: str, number: str) -> Loan:
    """Return a first loan, of which nothing is paid yet."""
    return Loan(
        mobileNumber=mobile_number,
        loanNumber=number,
        loanType="Home Loan",
        totalLoan=NEW_LOAN_TOTAL,
        amountPaid=0,
        outstandingAmount=NEW_LOAN_TOTAL,
    )


RECORD_TYPE = RecordType(
    base_path="/api/loans",
    record=Loan,
    new_record=open_loan,
    number_length=12,
    created="Loan created successfully",
    already_registered="Loan already registered with given mobileNumber {mobile}",
    mobile_unknown="Loan not found with the given input data mobileNumber : '{mobile}'",
    number_unknown="Loan not found with the given input data LoanNumber : '{number}'",
    invalid_update_status=HTTPStatus.OK,  # as the contract's examples show
)
