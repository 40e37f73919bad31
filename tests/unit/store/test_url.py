"""Which URLs name a store."""

import pickle

import pytest

from deployments.store import InvalidStoreUrl, open_store
from deployments.store.redis_store import RedisStore
from deployments.store.sqlite_store import SqliteStore


def test_a_sqlite_url_opens_nothing_yet(tmp_path):
    path = tmp_path / "folder" / "store.db"
    assert isinstance(open_store(f"sqlite:///{path}"), SqliteStore)
    assert not path.parent.exists()


def test_a_relative_sqlite_path_is_fixed_where_the_store_is_made(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///folder/store.db")
    assert str(tmp_path / "folder" / "store.db").encode() in pickle.dumps(store)


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "redis://localhost:6379/1",
        "rediss://user:p%40ss@db.example:6380/0",
        "redis://:secret@localhost",
    ],
)
def test_a_redis_url_connects_to_nothing_yet(url):
    store = open_store(url)
    assert isinstance(store, RedisStore)
    assert isinstance(pickle.loads(pickle.dumps(store)), RedisStore)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "store.db",
        "postgres://localhost/db",
        "sqlite://store.db",
        "sqlite:///",
        "sqlite:///:memory:",
        "redis://localhost:port",
        "redis://localhost:99999",
        "redis://localhost?colour=blue",
    ],
)
def test_any_other_url_is_refused(url):
    with pytest.raises(InvalidStoreUrl):
        open_store(url)


def test_the_refusal_of_a_badly_escaped_password_does_not_show_it():
    with pytest.raises(InvalidStoreUrl) as caught:
        open_store("redis://user:secret/word@localhost:6379")
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__
