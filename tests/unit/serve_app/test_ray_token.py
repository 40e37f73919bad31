"""Ray asks for a token that nobody else can read, unless its user wants it otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from serve_app.ray_dashboard import token_header
from serve_app.ray_token import MODE, TOKEN, TOKEN_PATH, asks_for_token, token_mode


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (MODE, TOKEN, TOKEN_PATH):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_token_is_made_once_and_its_owner_alone_can_read_it(home: Path) -> None:
    assert token_header() == {}
    assert token_mode() == {MODE: "token"}
    path = home / ".ray" / "auth_token"
    token = path.read_text()
    assert len(token) == 64
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    token_mode()
    assert path.read_text() == token
    assert token_header() == {"Authorization": f"Bearer {token}"}


def test_a_token_that_ray_has_made_is_closed_to_others(home: Path) -> None:
    path = home / ".ray" / "auth_token"
    path.parent.mkdir()
    path.write_text("of ray")
    path.chmod(0o644)
    token_mode()
    assert path.read_text() == "of ray"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", [TOKEN, TOKEN_PATH])
def test_a_token_in_the_environment_is_the_one(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (home / "elsewhere").write_text("given\n")
    monkeypatch.setenv(name, "given" if name == TOKEN else str(home / "elsewhere"))
    assert token_mode() == {MODE: "token"}
    assert not (home / ".ray").exists()
    assert token_header() == {"Authorization": "Bearer given"}


def test_who_wants_none_has_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODE, "disabled")
    assert token_mode() == {}
    assert not (home / ".ray").exists()


@pytest.mark.parametrize(("mode", "asks"), [(None, True), ("token", True), ("disabled", False)])
def test_the_token_is_spoken_of_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, mode: str | None, asks: bool
) -> None:
    if mode is not None:
        monkeypatch.setenv(MODE, mode)
    assert asks_for_token() is asks
    assert (token_mode() == {MODE: "token"}) is asks
