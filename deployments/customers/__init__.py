"""Accounts, loans and cards: one module for each type of record, and a shared package `records`.

A new type of record is a new module here with a `RECORD_TYPE`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping

from deployments.customers.records.record_type import RecordType


@functools.cache
def record_types() -> Mapping[str, RecordType]:
    """Return every type of record, by the name of its module."""
    modules = (module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)
    return {
        name: importlib.import_module(f"{__name__}.{name}").RECORD_TYPE for name in sorted(modules)
    }
