"""The keys of tokens and the first user: from the environment, a file, or created."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from deployments.access.keys import Keys, key_of_secret, new_key
from deployments.gateway.users import Users
from deployments.store import open_store
from serve_app.identity.first_user import FILE_NAME as USER_FILE_NAME
from serve_app.identity.first_user import (
    FIRST_USER,
    configured_users,
    create_first_user,
    known_credentials,
)
from serve_app.identity.keys import (
    FILE_NAME,
    SECRET_FILE_NAME,
    ConfiguredKeys,
    check_keys,
    key_file,
    signing_key,
    write_key_file,
)
from serve_app.settings import InsecureSettingsError, Settings

SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def settings(tmp_path):
    return Settings(data_dir=tmp_path / "data")


def with_secret(settings: Settings) -> Settings:
    return settings.model_copy(update={"jwt_secret": Settings(jwt_secret=SECRET).jwt_secret})


def kids(keys: Keys) -> set[str]:
    return {key.kid for key in keys}


def test_the_first_start_creates_a_key_and_a_replica_does_not(settings):
    with pytest.raises(InsecureSettingsError, match="on every node"):
        ConfiguredKeys(settings)()
    check_keys(settings)
    assert len(list(ConfiguredKeys(settings)())) == 1


def test_a_file_of_keys_replaces_the_secret_as_soon_as_it_exists(settings):
    read = ConfiguredKeys(with_secret(settings))
    first = read()
    assert read() is first
    new = new_key("HS256", 0)
    write_key_file(settings, [key_of_secret(SECRET.encode()), new])
    assert kids(read()) == kids(first) | {new.kid}
    assert read() is read()
    write_key_file(settings, [new])
    assert kids(read()) == {new.kid}


def test_only_its_owner_can_read_the_file(settings):
    write_key_file(settings, [new_key("HS256", 0)])
    assert stat.S_IMODE(key_file(settings).stat().st_mode) == 0o600
    os.chmod(key_file(settings), 0o604)
    with pytest.raises(InsecureSettingsError, match="every user can read it"):
        check_keys(settings)


def test_a_named_file_must_exist(settings, tmp_path):
    named = settings.model_copy(update={"jwt_keys_file": tmp_path / "keys"})
    with pytest.raises(InsecureSettingsError, match="which does not exist"):
        check_keys(named)
    write_key_file(named, [new_key("EdDSA", 0)])
    check_keys(named)
    assert not (settings.data_dir / FILE_NAME).exists()


def test_a_broken_file_is_refused_without_showing_its_content(settings):
    settings.data_dir.mkdir()
    key_file(settings).touch(mode=0o600)
    key_file(settings).write_text(f'{{"keys": [{{"k": "{SECRET}"}}]}}')
    with pytest.raises(InsecureSettingsError, match="has no usable keys") as refusal:
        check_keys(settings)
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize("secret", [SECRET, "ä" * 16], ids=["32 characters", "32 bytes"])
def test_a_given_secret_is_used_as_it_is(tmp_path, monkeypatch, secret):
    monkeypatch.setenv("JWT_SECRET", secret)
    assert signing_key(Settings(data_dir=tmp_path)) == secret.encode()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("secret", "message"),
    [(SECRET[:-1], "JWT_SECRET has 31 bytes; .* at least 32"), ("", "JWT_SECRET is empty")],
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


def test_production_needs_a_secret_or_a_file_of_keys(settings, monkeypatch):
    signing_key(settings)
    monkeypatch.setenv("ENVIRONMENT", "production")
    production = Settings(data_dir=settings.data_dir)
    with pytest.raises(InsecureSettingsError, match="JWT_SECRET must be set"):
        check_keys(production)
    write_key_file(production, [new_key("RS256", 0)])
    check_keys(production)
    monkeypatch.setenv("JWT_SECRET", SECRET)
    assert signing_key(Settings(data_dir=settings.data_dir)) == SECRET.encode()


def test_settings_do_not_show_their_secrets(monkeypatch):
    monkeypatch.setenv("JWT_SECRET", SECRET)
    monkeypatch.setenv("JWT_AUTH_PASSWORD", "some password")
    shown = repr(Settings())
    assert SECRET not in shown
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
