"""``greenwave users`` as a user types it."""

from __future__ import annotations

import io

import pytest

from deployments.store.sqlite_worker import connect
from serve_app.cli.main import main
from serve_app.identity.first_user import FIRST_USER, create_first_user, known_credentials
from serve_app.settings import Settings


@pytest.fixture
def users(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.delenv("STORE_URL", raising=False)

    def run(*arguments: str, typed: str = "") -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        code = main(["users", *arguments])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def test_users_are_added_listed_changed_and_removed(users):
    assert users("add", "ann", typed="some password\n") == (0, "Added 'ann'.\n")
    assert users("add", "bob", typed="some password\n") == (0, "Added 'bob'.\n")
    assert users("list") == (0, "ann\nbob\n")
    code, output = users("passwd", "ann", typed="another password\n")
    assert (code, output) == (0, "Changed the password of 'ann'.\n")
    assert users("remove", "ann") == (0, "Removed 'ann'.\n")
    assert users("list") == (0, "bob\n")


def test_a_user_may_do_what_the_operator_says(users):
    users("add", "ann", "act", "read", typed="some password\n")
    assert users("list") == (0, "ann  act read\n")
    assert users("scopes", "ann", "reset") == (0, "Changed what 'ann' may do.\n")
    assert users("list") == (0, "ann  reset\n")
    code, output = users("scopes", "ann", "everything")
    assert (code, output) == (1, "Scopes are one or more of act, reset, read.\n")


@pytest.mark.parametrize(
    ("arguments", "typed", "message"),
    [
        (("remove", "nobody"), "", "There is no user 'nobody'."),
        (("remove", "\udcff"), "", "A user name is printable text."),
        (("passwd", "nobody"), "some password\n", "There is no user 'nobody'."),
        (("add", "ann"), "short\n", "A password has 8 to 256 characters, not all of them blank."),
        (("add", "ann"), "", "A password has 8 to 256 characters, not all of them blank."),
        (("add", " "), "some password\n", "A user name is printable text without spaces"),
        (("add", "ann"), "\udcff\udcfe" * 5, "A password is text in UTF-8."),
    ],
)
def test_mistakes_end_in_one_sentence(users, tmp_path, arguments, typed, message):
    connect(tmp_path / "greenwave.db").close()
    code, output = users(*arguments, typed=typed)
    assert code == 1
    assert output.startswith(message)
    assert "Traceback" not in output


@pytest.mark.parametrize(("command", "typed"), [("passwd", "another password\n"), ("remove", "")])
def test_the_first_users_kept_password_is_forgotten_when_it_changes(
    users, tmp_path, command, typed
):
    settings = Settings(data_dir=tmp_path)
    first = create_first_user(settings)
    users("add", "ann", typed="some password\n")
    users(command, "ann", typed=typed)
    assert known_credentials(settings) == first
    users(command, FIRST_USER, typed=typed)
    assert known_credentials(settings) is None


def test_each_instance_has_users_of_its_own(users):
    users("add", "ann", typed="some password\n")
    assert users("add", "bob", "--port-base", "31000", typed="some password\n")[0] == 0
    assert users("list", "--port-base", "31000") == (0, "bob\n")
    assert users("list") == (0, "ann\n")


@pytest.mark.parametrize("command", [("list",), ("remove", "ann"), ("passwd", "ann")])
def test_a_store_that_is_not_there_is_no_empty_one(users, tmp_path, command):
    code, output = users(*command, typed="some password\n")
    assert (code, output.startswith("There is no store at")) == (1, True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("base", ["80", "65500", "many"])
@pytest.mark.parametrize("command", [["status"], ["users", "list"], ["export", "f"]])
def test_an_impossible_port_base_is_refused(command, base, capsys):
    with pytest.raises(SystemExit):
        main([*command, "--port-base", base])
    assert "not a number from 1024 to 65035" in capsys.readouterr().err


def test_a_password_is_no_argument(users, capsys):
    with pytest.raises(SystemExit):
        users("passwd", "ann", "some password")
    assert "unrecognized arguments" in capsys.readouterr().err
    assert users("add", "ann", "some password", typed="another one\n")[0] == 1
