"""Durable documents behind one interface: SQLite on one machine, Redis on many."""

from deployments.store.errors import (
    DocumentNotFound,
    DuplicateDocument,
    DuplicateIndex,
    DuplicateKey,
    InvalidStoreUrl,
    StoreError,
    StoreUnavailable,
)
from deployments.store.interface import Document, Expected, Store
from deployments.store.url import open_store

__all__ = [
    "Document",
    "DocumentNotFound",
    "DuplicateDocument",
    "DuplicateIndex",
    "DuplicateKey",
    "Expected",
    "InvalidStoreUrl",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "open_store",
]
