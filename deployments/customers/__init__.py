"""Accounts, loans and cards: one module for each type of record, and a shared package `records`.

A new type of record is a new module here with a `RECORD_TYPE`, which `record_types` and the option
`record` name.
"""

from __future__ import annotations

from collections.abc import Mapping

from deployments.customers import accounts, cards, loans
from deployments.customers.records.record_type import RecordType


def record_types() -> Mapping[str, RecordType]:
    """Return every type of record, by the name of its module."""
    return {each.RECORD_TYPE.name: each.RECORD_TYPE for each in (accounts, cards, loans)}
