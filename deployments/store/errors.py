"""What a store can answer besides a value.

StoreError
├── InvalidStoreUrl       the URL names no store
├── StoreUnavailable      the store cannot be reached, is busy, full, read-only or broken
├── DocumentNotFound      no document has the key
└── DuplicateDocument     another document has the same unique value
    ├── DuplicateKey      ... as its key
    └── DuplicateIndex    ... as its index
"""

from __future__ import annotations


class StoreError(Exception):
    """Base of every error that a store raises."""


class InvalidStoreUrl(StoreError, ValueError):
    """The URL does not name a store; the message says why, without the URL's password."""


class StoreUnavailable(StoreError):
    """The store cannot serve now; a write that raises this may or may not have been applied."""


class DocumentNotFound(StoreError):
    """No document of the table has this key."""

    def __init__(self, table: str, key: str) -> None:
        super().__init__(f"no document {key!r} in {table}")


class DuplicateDocument(StoreError):
    """Another document of the table already has one of the unique values; nothing was written."""

    def __init__(self, table: str, value: str) -> None:
        super().__init__(f"{table} already has a document with {value!r}")
        self.table = table
        self.value = value


class DuplicateKey(DuplicateDocument):
    """The key is taken."""


class DuplicateIndex(DuplicateDocument):
    """The index value is taken by a document with another key."""
