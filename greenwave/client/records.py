"""The calls of the customer records: one account, loan and card for each mobile number."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field, TypeAdapter

from greenwave.client.call import Call, Effect, Reply
from greenwave.client.errors import InvalidInputError, InvalidRequestError
from greenwave.client.failures import failure_of
from greenwave.client.inputs import mobile_number
from greenwave.client.results import Card, Customer, Loan, Record
from greenwave.client.service import Mode, ProbedService, nothing, operation

AnyRecord = TypeVar("AnyRecord", bound=Record)

_MEMBERS = TypeAdapter(dict[str, Any])
_FIELDS = TypeAdapter(Annotated[dict[str, str], Field(min_length=1)])
_GREETING = TypeAdapter(str)
_FORMS_OF_ERRORS = ("errorMessage", "detail", "title")


class Records(ProbedService[Mode], Generic[Mode, AnyRecord]):
    """Fetching, changing and deleting records of one type.

    A write is sent once: repeated after a lost answer, it could undo another client's write.
    Then it raises an UnknownOutcomeError, and ``fetch`` returns what is stored.
    """

    form: type[AnyRecord]

    @operation
    def fetch(self, mobile: str) -> Call[AnyRecord]:
        """Return the record with this mobile number."""
        return self._get(_of(mobile), self.form)

    @operation
    def update(self, record: AnyRecord) -> Call[None]:
        """Replace the record that has this record's own number."""
        if not isinstance(record, self.form):
            raise InvalidInputError(f"{self.form.__name__} expected, not {record!r:.50}")
        return self._write("PUT", json=record)

    @operation
    def delete(self, mobile: str) -> Call[None]:
        """Delete the record with this mobile number."""
        return self._call("DELETE", _of(mobile), nothing, Effect.NOT_IDEMPOTENT)

    @operation
    def say_hello(self) -> Call[str]:
        """Return the greeting of the service."""
        return self._call("GET", "/sayHello", lambda reply: _GREETING.validate_json(reply.body))

    def _write(self, method: str, path: str = "", json: object = None) -> Call[None]:
        answers = (200 if method == "PUT" else 201, 400)
        effect = Effect.NOT_IDEMPOTENT
        return self._call(method, path, _read_done, effect, json=json, answers=answers)


class NumberedRecords(Records[Mode, AnyRecord]):
    """Records that are created from a mobile number alone."""

    @operation
    def create(self, mobile: str) -> Call[None]:
        """Create a record for this mobile number, which must have none."""
        return self._write("POST", _of(mobile))


class Loans(NumberedRecords[Mode, Loan]):
    """Customers' loans."""

    prefix, form = "/api/loans", Loan


class Cards(NumberedRecords[Mode, Card]):
    """Customers' cards."""

    prefix, form = "/api/cards", Card


class Accounts(Records[Mode, Customer]):
    """Customers with their accounts."""

    prefix, form = "/api/accounts", Customer

    @operation
    def create(self, name: str, email: str, mobile: str) -> Call[None]:
        """Open an account for a customer, whose mobile number must have none.

        Args:
            name: 5 to 30 characters.
        """
        body = {"name": name, "email": email, "mobileNumber": mobile_number(mobile)}
        return self._write("POST", json=body)


def _of(mobile: str) -> str:
    return f"?mobileNumber={mobile_number(mobile)}"


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
