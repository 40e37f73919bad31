"""The signing key and the first user: from the environment, or created."""

import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from deployments.gateway.users import Users
from deployments.store import open_store
from serve_app.identity.first_user import FILE_NAME as USER_FILE_NAME
from serve_app.identity.first_user import (
    FIRST_USER,
    configured_users,
    create_first_user,
    known_credentials,
)
from serve_app.identity.keys import SECRET_FILE_NAME, signing_key
from serve_app.settings import InsecureSettingsError, Settings

LONG = "0123456789abcdef0123456789abcdef"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in [
        "JWT_SECRET",
        "JWT_AUTH_USERNAME",
        "JWT_AUTH_PASSWORD",
        "ENVIRONMENT",
        "STORE_URL",
    ]:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def settings(tmp_path):
    return Settings(data_dir=tmp_path / "data")


@pytest.mark.parametrize("secret", [LONG, "ä" * 16], ids=["32 characters", "32 bytes"])
def test_a_given_secret_is_used_as_it_is(tmp_path, monkeypatch, secret):
    monkeypatch.setenv("JWT_SECRET", secret)
    assert signing_key(Settings(data_dir=tmp_path)) == secret.encode()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("secret", "message"),
    [(LONG[:-1], "JWT_SECRET has 31 bytes; .* at least 32"), ("", "JWT_SECRET is empty")],
)
def test_a_short_or_empty_secret_is_refused(tmp_path, monkeypatch, secret, message):
    monkeypatch.setenv("JWT_SECRET", secret)
    with pytest.raises(InsecureSettingsError, match=message):
        signing_key(Settings(data_dir=tmp_path))
    assert not list(tmp_path.iterdir())


def test_processes_that_start_at_once_get_one_key_for_their_owner_alone(settings):
    with ThreadPoolExecutor(16) as threads:
        (key,) = set(threads.map(lambda _: signing_key(settings), range(64)))
    path = settings.data_dir / SECRET_FILE_NAME
    assert len(key) >= 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in settings.data_dir.iterdir()] == [SECRET_FILE_NAME]
    path.write_text("short")
    with pytest.raises(InsecureSettingsError, match="has 5 bytes"):
        signing_key(settings)


def test_production_needs_a_secret(settings, monkeypatch):
    signing_key(settings)
    monkeypatch.setenv("ENVIRONMENT", "production")
    production = Settings(data_dir=settings.data_dir)
    with pytest.raises(InsecureSettingsError, match="JWT_SECRET must be set"):
        signing_key(production)
    monkeypatch.setenv("JWT_SECRET", LONG)
    assert signing_key(Settings(data_dir=settings.data_dir)) == LONG.encode()


def test_settings_do_not_show_their_secrets(monkeypatch):
    monkeypatch.setenv("JWT_SECRET", LONG)
    monkeypatch.setenv("JWT_AUTH_PASSWORD", "some password")
    shown = repr(Settings())
    assert LONG not in shown
    assert "some password" not in shown


async def test_the_environment_can_name_a_user_and_then_none_is_made(settings, monkeypatch):
    monkeypatch.setenv("JWT_AUTH_USERNAME", "ann")
    monkeypatch.setenv("JWT_AUTH_PASSWORD", "some password")
    users = configured_users(Settings())
    assert list(users) == ["ann"]
    assert "some password" not in users["ann"]
    store = open_store(settings.resolved_store_url)
    assert await create_first_user(Settings(data_dir=settings.data_dir), store) is None
    await store.close()


@pytest.mark.parametrize("name", ["JWT_AUTH_USERNAME", "JWT_AUTH_PASSWORD"])
def test_half_a_user_is_refused(monkeypatch, name):
    monkeypatch.setenv(name, "something")
    with pytest.raises(InsecureSettingsError, match="must be set together"):
        configured_users(Settings())


async def test_the_first_user_is_made_once_and_the_store_has_only_the_hash(settings):
    store = open_store(settings.resolved_store_url)
    credentials = await create_first_user(settings, store)
    assert credentials is not None
    assert credentials.username == FIRST_USER
    assert len(credentials.password) >= 16
    assert await create_first_user(settings, store) is None
    assert [*await Users(store).scopes()] == [FIRST_USER]
    await store.close()
    kept = settings.data_dir / USER_FILE_NAME
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert known_credentials(settings) == credentials
    for path in set(settings.data_dir.iterdir()) - {kept}:
        assert credentials.password.encode() not in path.read_bytes()
