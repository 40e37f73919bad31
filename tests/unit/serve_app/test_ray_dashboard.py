"""Ray asks for a token that only its owner can read, unless the operator chooses otherwise."""

from pathlib import Path

import pytest

from serve_app.ray_dashboard import (
    MODE,
    TOKEN,
    TOKEN_PATH,
    RayDashboard,
    token_environment,
    token_required,
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in (MODE, TOKEN, TOKEN_PATH):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "data" / "ray-auth-token"


def sent(file: Path | None) -> str | None:
    return RayDashboard("http://nowhere", file).token_header().get("Authorization")


def test_a_token_is_created_once_in_the_data_folder_for_its_owner_alone(home, file):
    assert sent(file) is None
    for _ in range(2):
        assert token_environment(file) == {MODE: "token", TOKEN_PATH: str(file)}
    token = file.read_text()
    assert len(token) == 64
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert sent(file) == f"Bearer {token}"
    assert not home.exists()


def test_without_a_file_the_token_in_rays_usual_place_is_sent(home, file):
    (home / ".ray").mkdir(parents=True)
    (home / ".ray" / "auth_token").write_text("usual\n")
    assert sent(None) == sent(file) == "Bearer usual"


@pytest.mark.parametrize("name", [TOKEN, TOKEN_PATH])
def test_a_token_in_the_environment_comes_first(home, file, tmp_path, monkeypatch, name):
    token_environment(file)
    file.rename(tmp_path / "of another start")
    (tmp_path / "elsewhere").write_text("given\n")
    monkeypatch.setenv(name, "given" if name == TOKEN else str(tmp_path / "elsewhere"))
    assert token_environment(file) == {MODE: "token"}
    assert not file.exists()
    assert sent(tmp_path / "of another start") == "Bearer given"


@pytest.mark.parametrize(("mode", "required"), [("token", True), ("disabled", False)])
def test_the_mode_of_the_environment_stays(file, monkeypatch, mode, required):
    monkeypatch.setenv(MODE, mode)
    assert token_required() is required
    assert (MODE in token_environment(file)) is required
    assert file.exists() is required
