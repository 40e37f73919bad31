"""The declaration of one type of record; everything else is shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from deployments.customers.records.errors import RecordError
from deployments.customers.records.fields import Fields, Record


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

    left_to_settings: Mapping[str, str] = field(default_factory=dict)
    """Attributes that the environment may set, with the name of the setting."""

    @property
    def name(self) -> str:
        """The service's name, last segment of the base path: also its table in the store."""
        return self.base_path.rpartition("/")[2]

    def error_code(self, error: RecordError) -> str:
        """Return the errorCode of the error response."""
        status = error.status
        return f"{status.value} {status.name}" if self.status_in_error_code else status.name
