"""JSON objects whose fields keep rules."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from deployments.customers.records.errors import InvalidFields, MalformedBody
from deployments.customers.records.rules import BROKEN_RULE, Rule, digits, not_empty

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
    """What is kept for one customer: found by its own number and by the mobile number."""

    mobileNumber: MobileNumber

    @property
    @abstractmethod
    def number(self) -> str:
        """The record's own number."""
