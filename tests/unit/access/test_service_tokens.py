"""Tokens for machines: what is kept of them, and that they end when the operator says so."""

import json

import pytest

from deployments.access.claims import AccountError
from deployments.access.keys import Key, Keys, key_of_secret, new_key
from deployments.access.revocations import SERVICE_TOKENS, Revocations
from deployments.access.service_tokens import MAX_DAYS, ServiceTokens
from deployments.access.tokens import Tokens
from deployments.http.errors import ForbiddenError, UnauthorizedError
from tests.unit.access.conftest import NOW, SECRET

KEYS = Keys.of_secret(SECRET)
DAY_S = 86_400


@pytest.fixture
def accounts(store, clock):
    return ServiceTokens(store.as_store(), clock)


@pytest.fixture
def tokens(store, clock):
    return Tokens(KEYS, 3600, 5, clock, Revocations(store.as_store()))


async def test_a_controller_may_act_for_a_year_and_do_nothing_else(accounts, tokens, clock):
    _, token = await accounts.create(KEYS, "controller", 365)
    clock.now += 365 * DAY_S
    assert tokens.authenticate(f"Bearer {token}", "act").subject == "service:controller"
    for scope in ("reset", "read"):
        with pytest.raises(ForbiddenError):
            tokens.authenticate(f"Bearer {token}", scope)
    clock.now += 6
    with pytest.raises(UnauthorizedError, match="expired"):
        tokens.verify(token)


async def test_one_token_is_revoked_by_its_name_and_all_by_their_account(accounts, tokens):
    (first_id, first), (_, second) = [
        await accounts.create(KEYS, "controller", 365) for _ in range(2)
    ]
    _, other = await accounts.create(KEYS, "other", 365)
    for token in (first, second, other):
        tokens.verify(token)
    assert await accounts.revoke(first_id) == 1
    await tokens.refresh_revocations()
    with pytest.raises(UnauthorizedError, match="revoked"):
        tokens.verify(first)
    tokens.verify(second)
    assert await accounts.revoke("controller") == 1
    await tokens.refresh_revocations()
    with pytest.raises(UnauthorizedError, match="revoked"):
        tokens.verify(second)
    tokens.verify(other)


async def test_what_is_kept_of_a_token_lets_nobody_in(accounts, store):
    token_id, token = await accounts.create(KEYS, "controller", 365, ["act", "reset"])
    kept = store.table(SERVICE_TOKENS)[token_id]
    assert all(part.encode() not in kept for part in token.split("."))
    assert json.loads(kept)["scopes"] == ["act", "reset"]


async def test_a_revoked_token_is_remembered_until_it_would_have_expired(accounts, store, clock):
    await accounts.create(KEYS, "controller", 10)
    await accounts.revoke("controller")
    clock.now += 9 * DAY_S
    (kept,) = (await accounts.all()).values()
    assert kept.revoked_at == NOW
    clock.now += 2 * DAY_S
    await accounts.create(KEYS, "other", 10)
    assert [token.name for token in (await accounts.all()).values()] == ["other"]
    assert len(store.table(SERVICE_TOKENS)) == 2  # with the revision


async def test_no_token_outlives_its_key(accounts, clock):
    old, new = key_of_secret(SECRET), new_key("HS256", NOW + 60)
    ending = Key(old.kid, "HS256", SECRET, SECRET, verifies_until=NOW + 7200)
    with pytest.raises(AccountError, match="ends before the token would"):
        await accounts.create(Keys([ending, new]), "controller", 365)
    clock.now += 61
    _, token = await accounts.create(Keys([ending, new]), "controller", 365)
    assert await accounts.ends_of_keys() == {new.kid: NOW + 61 + 365 * DAY_S + 60}
    Tokens(Keys([new]), 60, 5, clock).verify(token)


@pytest.mark.parametrize(
    ("name", "days", "scopes", "why"),
    [
        (" ", 1, ["act"], "printable text"),
        ("a\nb", 1, ["act"], "printable text"),
        ("x" * 65, 1, ["act"], "at most 64"),
        ("a", 0, ["act"], "1 to 3650 days"),
        ("a", MAX_DAYS + 1, ["act"], "1 to 3650 days"),
        ("a", 1, [], "one or more of"),
        ("a", 1, ["everything"], "one or more of"),
    ],
)
async def test_what_makes_no_sense_is_refused_and_changes_nothing(
    accounts, store, name, days, scopes, why
):
    with pytest.raises(AccountError, match=why):
        await accounts.create(KEYS, name, days, scopes)
    assert store.table(SERVICE_TOKENS) == {}


async def test_there_are_not_more_than_may_be(accounts, monkeypatch):
    monkeypatch.setattr("deployments.access.service_tokens.MAX_TOKENS", 2)
    for _ in range(2):
        await accounts.create(KEYS, "controller", 1)
    with pytest.raises(AccountError, match="There are 2 tokens already"):
        await accounts.create(KEYS, "controller", 1)


async def test_what_is_not_there_cannot_be_revoked(accounts):
    await accounts.create(KEYS, "controller", 1)
    await accounts.revoke("controller")
    for which in ("controller", "nobody"):
        with pytest.raises(AccountError, match="no token, and no service account"):
            await accounts.revoke(which)
