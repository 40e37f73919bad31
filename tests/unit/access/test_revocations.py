"""Whose tokens count no more, when every replica knows, and what happens while none can ask."""

import asyncio

import pytest

from deployments.access.audit import AuditBuffer, AuditLog
from deployments.access.claims import AccountError
from deployments.access.control import AccessControl
from deployments.access.keys import Keys, new_key
from deployments.access.revocations import STALE_S, Revocations
from deployments.access.tokens import Tokens
from deployments.gateway.users import Users, hash_password
from deployments.http.errors import ForbiddenError, RefusedError, UnauthorizedError
from tests.support.virtual_time import virtual_time
from tests.unit.access.conftest import SECRET
from tests.unit.access.memory_store import MemoryStore

KEYS = Keys.of_secret(SECRET)
PASSWORD = "some password"


def loop_time() -> float:
    return asyncio.get_running_loop().time()


def replica(
    store: MemoryStore, configured: dict[str, str] | None = None, keys: Keys = KEYS
) -> Tokens:
    revocations = Revocations(store.as_store(), configured, loop_time)
    return Tokens(keys, 3600, 5, revocations=revocations, unchecked=["act"])


async def follow(tokens: Tokens) -> None:
    """Keep the tokens up to date, until the loop of the test ends."""
    audit = AuditBuffer(AuditLog(MemoryStore().as_store()))
    await AccessControl(tokens, lambda: KEYS, audit).start()


async def log_in(users: Users, tokens: Tokens, name: str = "ann") -> str:
    account = await users.account(name)
    assert account is not None
    return tokens.issue(name, account.scopes, account.generation)


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch):
    """Take what costs nothing for a hash: what it is does not matter here."""
    monkeypatch.setattr("deployments.gateway.users.hash_password", lambda password: f"#{password}")


@pytest.fixture
def users(store):
    return Users(store.as_store())


def refused(tokens: Tokens, token: str) -> bool:
    try:
        tokens.verify(token)
    except UnauthorizedError as error:
        return str(error) == "The token has been revoked"
    return False


@pytest.mark.parametrize("change", ["password", "scopes", "removal"])
@pytest.mark.parametrize("seen_before", [True, False])
async def test_a_change_of_a_user_revokes_its_tokens_and_nobody_elses(
    users, store, change, seen_before
):
    tokens = replica(store)
    await users.add("ann", PASSWORD)
    await users.add("bob", PASSWORD)
    anns, bobs = await log_in(users, tokens), await log_in(users, tokens, "bob")
    await tokens.refresh_revocations()
    if seen_before:
        assert not refused(tokens, anns)
    match change:
        case "password":
            await users.set_password("ann", "another password")
        case "scopes":
            await users.set_scopes("ann", ["act"])
        case "removal":
            await users.remove("ann")
    await tokens.refresh_revocations()
    assert refused(tokens, anns)
    assert not refused(tokens, bobs)


async def test_a_token_of_the_new_password_is_good_also_where_the_change_is_not_known(users, store):
    late = replica(store)
    await users.add("ann", PASSWORD)
    account = await users.account("ann")
    await late.refresh_revocations()
    await users.set_password("ann", "another password")
    token = await log_in(users, replica(store))
    assert not refused(late, token)
    await late.refresh_revocations()
    assert not refused(late, token)
    on_its_way = late.issue("ann", account.scopes, account.generation)
    assert refused(late, on_its_way), "a login with the old password"


async def test_who_is_added_again_gets_no_old_token_back(users, store):
    tokens = replica(store)
    await users.add("ann", PASSWORD)
    first = await log_in(users, tokens)
    await users.remove("ann")
    assert await users.scopes() == {}
    assert await users.account("ann") is None
    with pytest.raises(AccountError, match="There is no user 'ann'"):
        await users.remove("ann")
    await users.add("ann", PASSWORD)
    await tokens.refresh_revocations()
    assert refused(tokens, first)
    assert not refused(tokens, await log_in(users, tokens))


async def test_a_token_from_before_generations_is_good_until_the_password_changes(users, store):
    tokens = replica(store)
    await users.add("ann", PASSWORD)
    old = tokens.issue("ann")
    await tokens.refresh_revocations()
    assert not refused(tokens, old)
    assert not refused(tokens, tokens.issue("somebody of another system"))
    await users.set_password("ann", "another password")
    await tokens.refresh_revocations()
    assert refused(tokens, old)


async def test_what_was_removed_long_ago_is_forgotten(users, store, monkeypatch):
    await users.add("ann", PASSWORD)
    await users.remove("ann")
    await users.add("bob", PASSWORD)
    assert "ann" in store.table("gateway_users")
    monkeypatch.setattr("deployments.gateway.users.REMEMBERED_S", -10)
    await users.remove("bob")
    assert set(store.table("gateway_users")) == {" revision"}


async def test_of_two_changes_at_once_one_is_refused_and_nothing_is_lost(users, store, monkeypatch):
    await users.add("ann", PASSWORD)
    get = users._table.get

    async def get_and_be_overtaken(name):
        value: bytes | None = await get(name)
        monkeypatch.undo()
        await users.set_scopes("ann", ["act"])
        return value

    monkeypatch.setattr(users._table, "get", get_and_be_overtaken)
    with pytest.raises(AccountError, match="at the same time; try again"):
        await users.set_password("ann", "another password")
    assert await users.scopes() == {"ann": ("act",)}


class TestConfiguredUser:
    """JWT_AUTH_USERNAME, whose password every process gets anew, and nobody keeps."""

    def hash(self, password: str) -> str:
        return hash_password(password, b"the salt of ann!")

    @pytest.mark.parametrize("keys", [KEYS, Keys([new_key("EdDSA", 0)])], ids=["HS256", "EdDSA"])
    async def test_its_tokens_outlive_a_restart_with_the_same_password(self, store, keys):
        token = await log_in(
            Users(store.as_store(), {"ann": self.hash(PASSWORD)}), replica(store, keys=keys)
        )
        again = replica(store, {"ann": self.hash(PASSWORD)}, keys)
        assert not refused(again, token)
        assert not refused(again, again.issue("ann")), "of an earlier release"

    @pytest.mark.parametrize("configured", [{"ann": "another password"}, {}, {"bob": PASSWORD}])
    async def test_its_tokens_end_with_the_password(self, store, configured):
        token = await log_in(Users(store.as_store(), {"ann": self.hash(PASSWORD)}), replica(store))
        now = {name: self.hash(password) for name, password in configured.items()}
        assert refused(replica(store, now), token)

    async def test_a_user_of_the_store_by_the_same_name_does_not_matter(self, store, users):
        configured = {"ann": self.hash(PASSWORD)}
        await users.add("ann", PASSWORD)
        await users.set_password("ann", "another password")
        tokens = replica(store, configured)
        await tokens.refresh_revocations()
        token = await log_in(Users(store.as_store(), configured), tokens)
        assert not refused(tokens, token)

    async def test_a_token_tells_nothing_of_its_hash(self, store):
        import jwt

        users = Users(store.as_store(), {"ann": self.hash(PASSWORD)})
        token = await log_in(users, replica(store))
        claims = jwt.decode(token, options={"verify_signature": False})
        other = Keys.of_secret(b"another secret of 32 bytes at least")
        assert claims["gen"] != next(iter(other)).seal(self.hash(PASSWORD))
        assert claims["gen"] not in self.hash(PASSWORD)


@virtual_time
async def test_every_replica_knows_within_five_seconds(store, users):
    replicas = [replica(store) for _ in range(3)]
    await users.add("ann", PASSWORD)
    for number, tokens in enumerate(replicas):
        await asyncio.sleep(0.3 * number)
        await follow(tokens)
    token = await log_in(users, replicas[0])
    for after_s in range(1, 30):
        await asyncio.sleep(0.37 * after_s)
        assert not any(refused(tokens, token) for tokens in replicas)
        await users.set_password("ann", f"password number {after_s}")
        await asyncio.sleep(4.9)
        assert all(refused(tokens, token) for tokens in replicas)
        token = await log_in(users, replicas[0])


@virtual_time
async def test_while_the_store_is_away_signals_are_decided_on_and_resets_wait(store, users):
    tokens = replica(store)
    await users.add("ann", PASSWORD)
    await users.add("bob", PASSWORD)
    await follow(tokens)
    ann, bob = await log_in(users, tokens), await log_in(users, tokens, "bob")
    await users.remove("bob")
    await asyncio.sleep(2)
    store.serves = False
    await asyncio.sleep(STALE_S - 2)
    tokens.authenticate(f"Bearer {ann}", "reset")
    await asyncio.sleep(60)
    assert tokens.authenticate(f"Bearer {ann}", "act").subject == "ann"
    with pytest.raises(RefusedError, match="cannot be checked"):
        tokens.authenticate(f"Bearer {ann}", "reset")
    assert refused(tokens, bob), "what was known is not forgotten"
    store.serves = True
    await asyncio.sleep(2)
    tokens.authenticate(f"Bearer {ann}", "reset")


@virtual_time
async def test_a_replica_that_has_never_read_the_store_grants_no_more_than_that(store):
    store.serves = False
    tokens = replica(store)
    await follow(tokens)
    token = f"Bearer {tokens.issue('ann')}"
    tokens.authenticate(token, "act")
    with pytest.raises(RefusedError, match="cannot be checked"):
        tokens.authenticate(token, "reset")
    with pytest.raises(ForbiddenError):
        tokens.authenticate(f"Bearer {tokens.issue('ann', ['act'])}", "reset")


@virtual_time
async def test_no_request_asks_the_store_and_an_unchanged_list_is_not_read_again(store, users):
    tokens = replica(store)
    for number in range(100):
        await users.add(f"user {number}", PASSWORD)
    await tokens.refresh_revocations()
    token = f"Bearer {tokens.issue('user 7')}"
    before = store.calls
    for _ in range(1000):
        tokens.authenticate(token, "act")
    assert store.calls == before
    for _ in range(10):
        await tokens.refresh_revocations()
    assert store.calls == before + 2 * 10
