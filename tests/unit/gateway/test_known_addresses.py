"""Strangers who guess cannot lock out a user where the user has logged in before."""

import asyncio

import pytest

from deployments.gateway.errors import UnavailableError
from deployments.gateway.login import PasswordVerifier, place_of
from deployments.gateway.users import Users
from tests.unit.gateway.conftest import LIMITS, PASSWORD, PASSWORD_HASH

LIMIT = LIMITS.per_user
HOME, ELSEWHERE = "198.51.100.7", "198.51.100.8"


@pytest.fixture
def login(login):
    async def status_of_login(address, password=PASSWORD, name="ann"):
        return int((await login(name, password, address)).status_code)

    return status_of_login


async def guess(login, times: int) -> list[int]:
    return [await login(f"203.0.113.{number}", "a guess") for number in range(times)]


async def test_while_strangers_guess_a_user_logs_in_where_it_has_before(login):
    assert await login(HOME) == 200
    assert await guess(login, LIMIT + 2) == [401] * LIMIT + [429] * 2
    for _ in range(LIMIT + 2):
        assert await login(HOME) == 200
    assert await login(ELSEWHERE) == 429
    assert await guess(login, 1) == [429], "the user's logins give strangers no attempts back"


async def test_who_guesses_where_the_user_is_known_has_no_more_attempts_than_elsewhere(login):
    assert await login(HOME) == 200
    assert [await login(HOME, "a guess") for _ in range(LIMIT + 1)] == [401] * LIMIT + [429]
    assert await login(HOME) == 429
    assert await login(ELSEWHERE) == 200, "nor does it lock the user out elsewhere"


async def test_a_wrong_password_makes_no_address_known(login):
    for _ in range(LIMIT - 1):
        assert await login(HOME, "a guess") == 401
    assert await guess(login, 2) == [401, 429]
    assert await login(HOME) == 429


async def test_what_is_known_of_one_user_is_not_of_another(login, store):
    await Users(store).add("bob", "bob's password")
    assert await login(HOME) == 200
    for _ in range(LIMIT):
        await login(ELSEWHERE, "a guess", "bob")
    assert await login(HOME, "bob's password", "bob") == 429


@pytest.mark.parametrize("name", [f"{HOME} ann", f'["{HOME}", "ann"]', f"{HOME}\x00ann"])
async def test_no_user_name_stands_for_a_user_at_an_address(login, name):
    assert await login(HOME) == 200
    for _ in range(LIMIT + 1):
        await login(ELSEWHERE, "a guess", name)
    assert await login(HOME) == 200
    assert await login(HOME, "a guess") == 401


async def test_another_password_makes_every_address_strange(login, store):
    users = Users(store)
    await users.add("bob", "bob's password")
    assert await login(HOME, "bob's password", "bob") == 200
    await users.set_password("bob", "another password")
    for _ in range(LIMIT):
        await login(ELSEWHERE, "a guess", "bob")
    assert await login(HOME, "another password", "bob") == 429


async def test_an_address_is_forgotten_after_a_month_without_a_login(login, monkeypatch):
    now = 1_700_000_000.0
    monkeypatch.setattr("deployments.store.sqlite_store.time.time", lambda: now)
    for days, known in ((0, False), (29, True), (29, True), (31, False)):
        now += days * 24 * 3600
        assert await guess(login, LIMIT + 1) == [401] * LIMIT + [429]
        assert (await login(HOME) == 200) is known
        now += 61
        assert await login(HOME) == 200


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("198.51.100.7", "198.51.100.8", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:198.51.100.7", "198.51.100.7", True),
        ("unknown", "198.51.100.7", False),
        ("x" * 10_000, "x" * 64, True),
    ],
)
def test_what_counts_as_one_address(one, other, same):
    assert (place_of(one) == place_of(other)) == same


async def test_somebody_known_finds_a_place_when_strangers_have_theirs():
    verifier = PasswordVerifier(concurrency=1, max_waiting=4)
    strangers = [asyncio.create_task(verifier.verify(PASSWORD_HASH, "a guess")) for _ in range(5)]
    await asyncio.sleep(0)
    assert await verifier.verify(PASSWORD_HASH, PASSWORD, first=True)
    outcomes = await asyncio.gather(*strangers, return_exceptions=True)
    assert outcomes[:3] == [False] * 3
    assert [type(each) for each in outcomes[3:]] == [UnavailableError] * 2
    assert str(outcomes[3]) == "Too many logins at once"
    verifier.close()


async def test_the_revision_of_the_table_is_nobodys_name(login, store):
    await Users(store).add("bob", "bob's password")
    for password in ("", " ", "x"):
        assert await login(HOME, password, " revision") in (400, 401)
