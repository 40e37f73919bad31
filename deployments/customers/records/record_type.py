"""The declaration of one type of record: its fields with their rules, and its messages."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from deployments.customers.records.errors import InvalidFields, MalformedBody

BROKEN_RULE = "broken_rule"

# E-mail addresses as Hibernate Validator accepts them, without quoted local parts and IP addresses:
# dot-separated atoms, `@`, dot-separated labels; letters of any script.
_ATOM = r"[\w!#$%&'*+/=?^`{|}~-]+"
_LABEL = r"[^\W_](?:(?:[^\W_]|-){0,61}[^\W_])?"
_EMAIL = re.compile(rf"(?=.{{1,64}}@.{{1,255}}$){_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule in a field's `Annotated`; the first broken one is reported.

    A missing or null field breaks its first rule.
    """

    message: str
    holds: Callable[[Any], bool]
    json_schema: Mapping[str, Any] = field(default_factory=dict)
    """What the rule adds to the field's schema in OpenAPI."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), **self.json_schema}

    def _check(self, value: Any) -> Any:
        if not self.holds(value):
            raise PydanticCustomError(BROKEN_RULE, "{message}", {"message": self.message})
        return value


def present(message: str) -> Rule:
    """Require a field that is neither missing nor null."""
    return Rule(message, lambda _: True)


def not_empty(message: str) -> Rule:
    """Require a text of at least one character."""
    return Rule(message, bool, {"minLength": 1})


def length(shortest: int, longest: int, message: str) -> Rule:
    """Require a text of ``shortest`` to ``longest`` characters."""

    def holds(text: Sized) -> bool:
        return shortest <= len(text) <= longest

    return Rule(message, holds, {"minLength": shortest, "maxLength": longest})


def digits(count: int, message: str) -> Rule:
    """Require a text of exactly ``count`` ASCII digits."""
    pattern = re.compile(rf"[0-9]{{{count}}}")
    return Rule(
        message,
        lambda text: pattern.fullmatch(text) is not None,
        {"pattern": f"^{pattern.pattern}$"},
    )


def integer_of_digits(count: int, message: str) -> Rule:
    """Require a positive integer of exactly ``count`` digits."""
    least, most = 10 ** (count - 1), 10**count - 1
    return Rule(
        message,
        lambda number: least <= number <= most,
        {"minimum": least, "maximum": most, "format": "int64"},
    )


def at_least(least: int, message: str) -> Rule:
    """Require an integer that is not smaller than ``least``."""
    return Rule(message, lambda number: number >= least, {"minimum": least, "format": "int64"})


def email(message: str) -> Rule:
    """Require an e-mail address; its domain may have no dot."""
    return Rule(message, lambda text: _EMAIL.fullmatch(text) is not None, {"format": "email"})


MobileNumber = Annotated[
    str,
    not_empty("MobileNumber cannot be null or empty"),
    digits(10, "Mobile Number must be 10 digits"),
]


class Fields(BaseModel):
    """A JSON object. Unknown members are ignored; values keep their JSON type, never converted."""

    model_config = ConfigDict(strict=True, frozen=True)

    @classmethod
    def read(cls, members: Mapping[str, Any]) -> Self:
        """Read the object with these members.

        Raises:
            MalformedBody: a member has the wrong JSON type.
            InvalidFields: members break their rules, or are missing or null.
        """
        try:
            return cls.model_validate(members)
        except ValidationError as error:
            raise InvalidFields(dict(map(cls._message, error.errors()))) from None

    @classmethod
    def _message(cls, error: Any) -> tuple[str, str]:
        name = ".".join(error["loc"])
        if error["type"] == BROKEN_RULE:
            return name, error["msg"]
        if error["type"] == "missing" or error["input"] is None:
            return name, cls._first_rule(error["loc"]).message
        raise MalformedBody from None

    @classmethod
    def _first_rule(cls, location: Sequence[str]) -> Rule:
        name, *rest = location
        field: FieldInfo = cls.model_fields[name]
        if rest:
            nested: type[Fields] = field.annotation  # type: ignore[assignment]
            return nested._first_rule(rest)
        return next(rule for rule in field.metadata if isinstance(rule, Rule))


class Record(Fields):
    """A customer's record, found by its number and by the mobile number."""

    mobileNumber: MobileNumber

    @property
    @abstractmethod
    def number(self) -> str:
        """The record number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordType:
    """Declaration of one record service."""

    base_path: str
    aliases: tuple[str, ...] = ()
    """Further paths with the operations of the base path."""

    record: type[Record]
    """The body of fetch and update, and what is stored."""

    new_record: Callable[[Any, str], Record]
    """Makes a customer's first record from the create request and a free record number. Without a
    `create_request`, the mobile number takes its place."""

    create_request: type[Fields] | None = None
    """The body of create; None: create takes the mobile number from the query and no body."""

    number_length: int

    created: str
    already_registered: str
    """Message; {mobile} stands for the mobile number."""

    mobile_unknown: str
    """Message; {mobile} stands for the mobile number."""

    number_unknown: str
    """Message; {number} stands for the record's number."""

    status_in_error_code: bool = False
    """Whether errorCode reads `400 BAD_REQUEST` or just `BAD_REQUEST`."""

    invalid_update_status: int = HTTPStatus.BAD_REQUEST
    """Status of the answer to an update whose fields break rules."""

    @property
    def name(self) -> str:
        """The service's name, last segment of the base path: also its table in the store."""
        return self.base_path.rpartition("/")[2]
