"""``greenwave keys``, and what the keys then verify."""

import fcntl
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from deployments.access.keys import Keys
from deployments.access.tokens import Tokens
from deployments.http.errors import UnauthorizedError
from serve_app.cli.main import main
from serve_app.identity.keys import ConfiguredKeys
from serve_app.settings import Settings
from tests.unit.serve_app.cli.conftest import SECRET


@pytest.fixture
def keys(greenwave):
    def run(*words: str) -> tuple[int, str]:
        result = greenwave("keys", *words)
        return result.code, result.text

    return run


class Clock:
    ahead_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_s


def test_a_rotation_invalidates_no_token(keys):
    clock, read = Clock(), ConfiguredKeys(Settings())
    tokens = Tokens(read(), 3600, 5, clock)
    before = tokens.issue("ann")
    assert keys("rotate")[0] == 0
    tokens.use(read())
    assert tokens.verify(before).subject == "ann"
    clock.ahead_s = 61
    after = tokens.issue("ann")
    clock.ahead_s = 3500
    assert tokens.verify(before).subject == "ann"
    clock.ahead_s = 3600 + 60 + 60 + 10
    assert tokens.issue("ann")
    with pytest.raises(UnauthorizedError):
        tokens.verify(after)


def test_keys_are_listed_with_their_state(keys):
    assert re.fullmatch(r"\S{16}  HS256  signs\n", keys("list")[1])
    code, output = keys("rotate", "--algorithm", "EdDSA", "--after", "600")
    assert (code, "to every node before that" in output) == (0, True)
    listed = keys("list")[1].splitlines()
    assert re.search(r"HS256  signs$", listed[0])
    assert re.search(r"EdDSA  signs from 20\S+ \S+ UTC on$", listed[1])
    assert SECRET not in str(listed)


def test_a_waiting_key_is_dropped_when_a_later_one_signs_before(keys):
    keys("rotate", "--algorithm", "EdDSA", "--after", "0")
    keys("rotate", "--after", "600")
    waiting = keys("list")[1].splitlines()[-1].split()[0]
    keys("rotate", "--after", "0")
    listed = keys("list")[1].splitlines()
    assert [line.split()[1] for line in listed] == ["HS256", "EdDSA", "EdDSA"], "as the one before"
    assert waiting not in str(listed)
    assert not listed[0].endswith("  signs")


def test_a_key_is_retired_once_another_one_signs(keys):
    old = keys("list")[1].split()[0]
    token = Tokens(ConfiguredKeys(Settings())(), 3600, 5).issue("ann")
    keys("rotate", "--after", "600")
    code, output = keys("retire", old)
    assert (code, output.startswith("No other key signs now")) == (1, True)
    keys("rotate", "--after", "0")
    assert keys("retire", old)[0] == 0
    assert old not in keys("list")[1]
    with pytest.raises(UnauthorizedError, match="invalid"):
        Tokens(ConfiguredKeys(Settings())(), 3600, 5).verify(token)


@pytest.mark.parametrize("after", ["0", "600"])
def test_the_successor_of_an_expiring_key_needs_a_successor_to_be_retired(keys, after):
    keys("rotate", "--after", after)
    newest = keys("list")[1].splitlines()[-1].split()[0]
    code, output = keys("retire", newest)
    assert (code, output.startswith("No other key signs now and continues to")) == (1, True)
    keys("rotate", "--after", "0")
    if newest in keys("list")[1]:  # one that has not signed yet is gone
        assert keys("retire", newest)[0] == 0
    in_a_year = time.time() + 365 * 24 * 3600
    assert ConfiguredKeys(Settings())().signing(in_a_year).kid != newest


def test_mistakes_end_in_one_sentence_and_change_nothing(keys, data_dir):
    assert keys("retire", "nothing") == (1, "There is no key 'nothing'.\n")
    assert not list(data_dir.iterdir())


def test_concurrent_rotations_keep_both_keys(keys):
    rotate = ["keys", "rotate", "--algorithm", "RS256", "--after", "0"]  # which takes its time
    with ThreadPoolExecutor(2) as both:
        assert list(both.map(main, [rotate, rotate])) == [0, 0]
    assert [line.split()[1] for line in keys("list")[1].splitlines()[-3:]].count("RS256") == 2


def test_a_change_gives_up_while_another_one_is_in_progress(keys, data_dir, monkeypatch):
    data_dir.mkdir()
    monkeypatch.setattr("serve_app.identity.keys.LOCK_TIMEOUT_S", 0.1)
    folder = os.open(data_dir, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    code, output = keys("rotate")
    os.close(folder)
    assert (code, "another process is changing" in output) == (1, True)
    assert len(keys("list")[1].splitlines()) == 1


def test_a_configured_file_is_created(keys, tmp_path, monkeypatch):
    path = tmp_path / "secrets" / "keys.json"
    monkeypatch.setenv("JWT_KEYS_FILE", str(path))
    before = Tokens(Keys.of_secret(SECRET.encode()), 3600, 5, Clock()).issue("ann")
    assert keys("rotate")[0] == 0
    assert path.stat().st_mode & 0o777 == 0o600
    tokens = Tokens(ConfiguredKeys(Settings())(), 3600, 5, Clock())
    assert tokens.verify(before).subject == "ann"
