"""The keys of tokens: their sources, and the reload of a changed file."""

import os
import stat

import pytest

from deployments.access.keys import Keys, key_of_secret, new_key
from serve_app.identity.keys import (
    FILE_NAME,
    ConfiguredKeys,
    check_keys,
    key_file,
    write_key_file,
)
from serve_app.settings import InsecureSettingsError, Settings

SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def settings(tmp_path, monkeypatch):
    for name in ("JWT_SECRET", "JWT_KEYS_FILE", "ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
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
    write_key_file(key_file(settings), [key_of_secret(SECRET.encode()), new])
    assert kids(read()) == kids(first) | {new.kid}
    assert read() is read()
    write_key_file(key_file(settings), [new])
    assert kids(read()) == {new.kid}


def test_only_its_owner_can_read_the_file(settings):
    write_key_file(key_file(settings), [new_key("HS256", 0)])
    assert stat.S_IMODE(key_file(settings).stat().st_mode) == 0o600
    os.chmod(key_file(settings), 0o604)
    with pytest.raises(InsecureSettingsError, match="every user can read it"):
        check_keys(settings)


def test_a_named_file_must_exist(settings, tmp_path):
    named = settings.model_copy(update={"jwt_keys_file": tmp_path / "keys"})
    with pytest.raises(InsecureSettingsError, match="which does not exist"):
        check_keys(named)
    write_key_file(tmp_path / "keys", [new_key("EdDSA", 0)])
    check_keys(named)
    assert not (settings.data_dir / FILE_NAME).exists()


def test_a_broken_file_is_refused_without_showing_its_content(settings):
    settings.data_dir.mkdir()
    key_file(settings).touch(mode=0o600)
    key_file(settings).write_text(f'{{"keys": [{{"k": "{SECRET}"}}]}}')
    with pytest.raises(InsecureSettingsError, match="has no usable keys") as refusal:
        check_keys(settings)
    assert SECRET not in str(refusal.value)


def test_in_production_a_file_of_keys_is_enough(settings, monkeypatch):
    monkeypatch.setenv("ENVIRONMENT", "production")
    production = Settings(data_dir=settings.data_dir)
    write_key_file(key_file(production), [new_key("RS256", 0)])
    check_keys(production)
