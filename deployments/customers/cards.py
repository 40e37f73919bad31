"""The cards service: a customer's card."""

from __future__ import annotations

from typing import Annotated

from deployments.customers.records.record_type import (
    Record,
    RecordType,
    at_least,
    digits,
    not_empty,
)

NEW_CARD_LIMIT = 100_000


class Card(Record):
    """A customer's card; amounts are integers."""

    cardNumber: Annotated[
        str,
        not_empty("Card Number cannot be null or empty"),
        digits(12, "CardNumber must be 12 digits"),
    ]
    cardType: Annotated[str, not_empty("Card Type cannot be null or empty")]
    totalLimit: Annotated[int, at_least(1, "Total card limit amount should be greater than zero")]
    amountUsed: Annotated[
        int, at_least(0, "Total card amount used should be equal or greater than zero")
    ]
    availableAmount: Annotated[
        int, at_least(0, "Total available amount should be equal or greater than zero")
    ]

    @property
    def number(self) -> str:
        return self.cardNumber


def open_card(mobile_number: str, number: str) -> Card:
    """Return a first card, of which nothing is used yet."""
    return Card(
        mobileNumber=mobile_number,
        cardNumber=number,
        cardType="Credit Card",
        totalLimit=NEW_CARD_LIMIT,
        amountUsed=0,
        availableAmount=NEW_CARD_LIMIT,
    )


RECORD_TYPE = RecordType(
    base_path="/api/cards",
    record=Card,
    new_record=open_card,
    number_length=12,
    created="Card created successfully",
    already_registered="Card already registered with given mobileNumber {mobile}",
    mobile_unknown="Card not found with the given input data mobileNumber : '{mobile}'",
    number_unknown="Card not found with the given input data CardNumber : '{number}'",
)
