"""Durable documents behind one interface: SQLite on one machine, Redis on many."""

from deployments.store.interface import (
    Document,
    DocumentNotFound,
    DuplicateDocument,
    DuplicateIndex,
    DuplicateKey,
    Expected,
    InvalidStoreUrl,
    Store,
    StoreError,
    StoreUnavailable,
)
from deployments.store.sqlite_store import SqliteStore

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

SQLITE_PREFIX = "sqlite:///"


def open_store(url: str) -> Store:
    """Return the store of a URL, not yet connected.

    Args:
        url: `sqlite:///PATH` (four slashes for an absolute path, three for one relative to the
            working folder), `redis://[user:password@]host[:port][/db]`, or `rediss://` over TLS.

    Raises:
        InvalidStoreUrl: the URL has another form.
    """
    scheme = url.partition(":")[0]
    if url.startswith(SQLITE_PREFIX):
        return SqliteStore(url.removeprefix(SQLITE_PREFIX))
    if scheme in ("redis", "rediss"):
        # imported here: its client takes a tenth of a second to load
        from deployments.store.redis_store import RedisStore

        return RedisStore(url)
    raise InvalidStoreUrl(
        f"unknown store URL scheme {scheme!r}: expected sqlite:///PATH, redis://… or rediss://…"
    )
