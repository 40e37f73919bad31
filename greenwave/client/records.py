"""The calls of the customer records: one account, loan and card for each mobile number."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field, TypeAdapter

from greenwave.client.call import Call, Effect, Reply, nothing
from greenwave.client.errors import InvalidInputError, InvalidRequestError
from greenwave.client.failures import failure_of
from greenwave.client.inputs import JSON, json_bytes, mobile_number
from greenwave.client.results import Card, Customer, Loan, Record
from greenwave.client.service import Probed, get

AnyRecord = TypeVar("AnyRecord", bound=Record)

_MEMBERS = TypeAdapter(dict[str, Any])
_FIELDS = TypeAdapter(Annotated[dict[str, str], Field(min_length=1)])
_FORMS_OF_ERRORS = ("errorMessage", "detail", "title")


class RecordCalls(Probed, Generic[AnyRecord]):
    """Fetching, changing and deleting records of one type.

    A write is sent once: repeated after a lost answer, it could undo another client's write.
    Then it raises an UnknownOutcomeError, and ``fetch`` returns what is stored.
    """

    path: str
    form: type[AnyRecord]

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    def root(self) -> str:
        return self._url + self.path

    def fetch(self, mobile: str) -> Call[AnyRecord]:
        """Return the record with this mobile number."""
        return get(self._of(mobile), self.form)

    def update(self, record: AnyRecord) -> Call[None]:
        """Replace the record that has this record's own number."""
        if not isinstance(record, self.form):
            raise InvalidInputError(f"{self.form.__name__} expected, not {record!r:.50}")
        return Call(
            method="PUT",
            url=self.root,
            effect=Effect.NOT_IDEMPOTENT,
            answers=(200, 400),
            headers=JSON,
            body=json_bytes(record),
            read=_read_done,
        )

    def delete(self, mobile: str) -> Call[None]:
        """Delete the record with this mobile number."""
        return Call(
            method="DELETE", url=self._of(mobile), effect=Effect.NOT_IDEMPOTENT, read=nothing
        )

    def say_hello(self) -> Call[str]:
        """Return the greeting of the service."""
        return Call(
            method="GET",
            url=f"{self.root}/sayHello",
            effect=Effect.NONE,
            read=lambda reply: str(TypeAdapter(str).validate_json(reply.body)),
        )

    def _of(self, mobile: str) -> str:
        return f"{self.root}?mobileNumber={mobile_number(mobile)}"


class NumberedCalls(RecordCalls[AnyRecord]):
    """Records that are created from a mobile number alone."""

    def create(self, mobile: str) -> Call[None]:
        """Create a record for this mobile number, which must have none."""
        return Call(
            method="POST",
            url=self._of(mobile),
            effect=Effect.NOT_IDEMPOTENT,
            answers=(201, 400),
            read=_read_done,
        )


class LoanCalls(NumberedCalls[Loan]):
    """Customers' loans."""

    path, form = "/api/loans", Loan


class CardCalls(NumberedCalls[Card]):
    """Customers' cards."""

    path, form = "/api/cards", Card


class AccountCalls(RecordCalls[Customer]):
    """Customers with their accounts."""

    path, form = "/api/accounts", Customer

    def create(self, name: str, email: str, mobile: str) -> Call[None]:
        """Open an account for a customer, whose mobile number must have none.

        Args:
            name: 5 to 30 characters.
        """
        body = {"name": name, "email": email, "mobileNumber": mobile_number(mobile)}
        return Call(
            method="POST",
            url=self.root,
            effect=Effect.NOT_IDEMPOTENT,
            answers=(201, 400),
            headers=JSON,
            body=json_bytes(body),
            read=_read_done,
        )


def _read_done(reply: Reply) -> None:
    """Read the answer to a write; one whose fields break rules may be a 200, as documented."""
    said = _MEMBERS.validate_json(reply.body)
    if reply.status == 400 and not said.keys().isdisjoint(_FORMS_OF_ERRORS):
        raise failure_of(reply).error
    if reply.status != 400 and "statusCode" in said:
        return
    fields = _FIELDS.validate_python(said)
    broken = "; ".join(f"{name}: {message}" for name, message in fields.items())
    error = InvalidRequestError(broken, status=reply.status)
    error.fields = fields
    raise error
