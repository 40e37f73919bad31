"""Inference tokens of the environment and of a file, and the refusal of unsafe ones."""

from pathlib import Path

import pytest

from serve_app.identity.inference_token import (
    configured_tokens,
    inference_tokens,
    required_inference_tokens,
    token_headers,
)
from serve_app.settings import InsecureSettingsError, Settings

TOKEN, NEXT = "0123456789abcdef" * 2, "fedcba9876543210" * 2


def file_with(tmp_path: Path, content: str, mode: int = 0o600) -> Path:
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(mode)
    return path


def test_the_one_of_the_environment(monkeypatch):
    assert (inference_tokens(), configured_tokens(Settings())) == ((), None)
    assert token_headers(Settings()) == {}
    monkeypatch.setenv("INFERENCE_TOKEN", TOKEN)
    assert inference_tokens() == (TOKEN,)
    assert token_headers(Settings()) == {"Authorization": f"Bearer {TOKEN}"}
    assert TOKEN not in repr(Settings())
    assert configured_tokens(Settings()) is required_inference_tokens


def test_those_of_a_file_of_which_the_first_is_sent(monkeypatch, tmp_path):
    path = file_with(tmp_path, f"{NEXT}\n{TOKEN}\n", 0o440)
    monkeypatch.setenv("INFERENCE_TOKEN_FILE", str(path))
    assert inference_tokens() == (NEXT, TOKEN)
    assert token_headers(Settings()) == {"Authorization": f"Bearer {NEXT}"}


@pytest.mark.parametrize(
    ("given", "content", "mode", "message"),
    [
        ("", None, 0, "is empty"),
        ("short", None, 0, "a token of 5 bytes"),
        (TOKEN + " " + TOKEN, None, 0, "not of printable ASCII"),
        (TOKEN + "ä", None, 0, "not of printable ASCII"),
        (TOKEN, TOKEN, 0o600, "Both"),
        (None, "", 0o600, "has no token"),
        (None, "short", 0o600, "a token of 5 bytes"),
        (None, TOKEN, 0o644, "every user can read it"),
        (None, TOKEN, None, "Cannot read"),
        (None, TOKEN * 200, 0o600, "larger than"),
    ],
)
def test_an_unsafe_one_is_refused_and_not_shown(
    monkeypatch, tmp_path, given, content, mode, message
):
    if given is not None:
        monkeypatch.setenv("INFERENCE_TOKEN", given)
    if content is not None:
        path = file_with(tmp_path, content, mode or 0o600)
        monkeypatch.setenv("INFERENCE_TOKEN_FILE", str(path))
        if mode is None:
            path.unlink()
    with pytest.raises(InsecureSettingsError, match=message) as refusal:
        inference_tokens()
    assert not given or given not in str(refusal.value)


def test_a_replica_without_the_token_is_refused():
    with pytest.raises(InsecureSettingsError, match="on every node"):
        required_inference_tokens()
