"""Users and their passwords."""

import pytest

from deployments.access.claims import SCOPES, AccountError
from deployments.gateway.login import PasswordVerifier
from deployments.gateway.users import Account, Users
from deployments.store import Document
from tests.unit.gateway.conftest import PASSWORD, PASSWORD_HASH


@pytest.fixture
def users(store):
    return Users(store)


@pytest.fixture
def verifier():
    verifier = PasswordVerifier(concurrency=1, max_waiting=2)
    yield verifier
    verifier.close()


async def password_hash(users: Users, name: str) -> str | None:
    account = await users.account(name)
    return account and account.password_hash


async def test_a_user_is_added_changed_and_removed(users, verifier):
    async def can_log_in(password):
        return bool(await verifier.verify(await password_hash(users, "ann"), password))

    assert not await can_log_in("first password")
    await users.add("ann", "first password")
    assert await can_log_in("first password")
    with pytest.raises(AccountError, match="There is a user 'ann' already"):
        await users.add("ann", "another password")
    await users.set_password("ann", "second password")
    assert not await can_log_in("first password")
    assert await can_log_in("second password")
    await users.remove("ann")
    assert not await can_log_in("second password")


async def test_a_user_may_do_everything_unless_told_otherwise(users):
    await users.add("bob", "some password", ["act", "read"])
    await users.add("ann", "some password")
    expected = {"ann": SCOPES, "bob": ("act", "read")}
    assert [*(await users.scopes()).items()] == [*expected.items()]
    await users.set_scopes("bob", SCOPES)
    assert (await users.account("bob")).scopes == SCOPES
    for scopes in ([], ["everything"], ["act", ""]):
        with pytest.raises(AccountError, match="one or more of act, reset, read"):
            await users.set_scopes("bob", scopes)


async def test_a_user_of_an_earlier_release_is_found_as_before(users, store, verifier):
    document = Document("ann", f'{{"password_hash": "{PASSWORD_HASH}"}}'.encode())
    await store.create("gateway_users", document)
    assert await users.account("ann") == Account(PASSWORD_HASH, SCOPES, 0)
    assert await users.scopes() == {"ann": SCOPES}


@pytest.mark.parametrize(
    ("name", "password", "reason"),
    [
        *((name, "some password", "user name") for name in ("", " ann", "a\nb", "x" * 65)),
        ("service:a", "some password", "those of service accounts"),
        *(("ann", bad, "has 8 to 256 characters") for bad in ("", "short", " " * 12, "x" * 257)),
    ],
)
async def test_odd_names_and_weak_passwords_are_refused(users, name, password, reason):
    with pytest.raises(AccountError, match=reason):
        await users.add(name, password)


async def test_the_store_never_sees_a_password(users, store):
    await users.add("ann", "some password")
    stored = b"".join([value async for _, value in store.scan("gateway_users")])
    assert b"some password" not in stored
    assert b"$argon2id$v=19$m=19456,t=2,p=1$" in stored


async def test_a_configured_user_goes_before_one_of_the_store(store, verifier):
    users = Users(store, {"ann": PASSWORD_HASH})
    await users.add("ann", "another password")
    assert await verifier.verify(await password_hash(users, "ann"), PASSWORD)


async def test_an_unknown_user_costs_a_hash_as_well(verifier, monkeypatch):
    compared = []

    def matches(*pair):
        compared.append(pair)
        return True

    monkeypatch.setattr("deployments.gateway.login.matches_hash", matches)
    assert not await verifier.verify(None, PASSWORD)
    ((password_hash, password),) = compared
    assert password_hash.split("$")[:4] == PASSWORD_HASH.split("$")[:4]  # same parameters
    assert password == PASSWORD


@pytest.mark.parametrize("password_hash", ["", "not a hash", "$argon2id$v=19$broken"])
async def test_a_broken_hash_lets_nobody_in(verifier, password_hash):
    assert not await verifier.verify(password_hash, PASSWORD)
