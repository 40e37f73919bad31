"""What every store must do, on SQLite and on Redis alike."""

import asyncio
import pickle

import pytest

from deployments.store import (
    Document,
    DocumentNotFound,
    DuplicateIndex,
    DuplicateKey,
    Expected,
    Store,
    open_store,
)

TABLE = "loans"


async def scanned(store: Store, table: str = TABLE) -> dict[str, bytes]:
    return {key: value async for key, value in store.scan(table)}


class TestCreate:
    async def test_documents_of_any_bytes_and_names_are_found_in_their_own_table(self, store):
        value, key, index = bytes(range(256)), "ключ {x} 'y' \" \n", "índice\n:*?"
        await store.create("loans", Document(key, value, index))
        await store.create("cards", Document(key, b"card", index))
        assert await store.get("loans", key) == value
        assert await store.get_by_index("loans", index) == value
        assert await store.get_by_index("cards", index) == b"card"
        assert await scanned(store, "loans") == {key: value}
        assert await store.get("loans", index) is None
        assert await store.get_by_index("loans", key) is None

    @pytest.mark.parametrize(
        ("document", "error"),
        [
            (Document("2", b"two", "i"), DuplicateIndex),
            (Document("1", b"two", "j"), DuplicateKey),
            (Document("1", b"two", "i"), DuplicateIndex),
        ],
    )
    async def test_a_taken_name_is_refused_and_nothing_written(self, store, document, error):
        await store.create(TABLE, Document("1", b"one", "i"))
        with pytest.raises(error) as raised:
            await store.create(TABLE, document)
        assert type(raised.value) is error
        assert await scanned(store) == {"1": b"one"}
        assert await store.get_by_index(TABLE, "j") is None

    async def test_documents_without_an_index_do_not_collide(self, store):
        await store.create(TABLE, Document("1", b"one"))
        await store.create(TABLE, Document("2", b"two"))
        assert await scanned(store) == {"1": b"one", "2": b"two"}
        with pytest.raises(DuplicateKey):
            await store.create(TABLE, Document("1", b"again"))


class TestCreateMany:
    async def test_each_is_created_or_refused_in_its_own_position(self, store):
        await store.create(TABLE, Document("1", b"one", "i"))
        errors = await store.create_many(
            TABLE,
            [
                Document("2", b"two", "j"),
                Document("1", b"x", "k"),
                Document("3", b"x", "i"),
                Document("4", b"x", "j"),
                Document("5", b"five", "l"),
            ],
        )
        kinds = [type(error) for error in errors]
        assert kinds == [type(None), DuplicateKey, DuplicateIndex, DuplicateIndex, type(None)]
        assert await scanned(store) == {"1": b"one", "2": b"two", "5": b"five"}

    async def test_more_than_one_batch(self, store):
        documents = [Document(f"{n}", b"%d" % n, f"i{n}") for n in range(2500)]
        assert await store.create_many(TABLE, documents) == [None] * 2500
        assert len(await scanned(store)) == 2500
        assert await store.get_by_index(TABLE, "i2499") == b"2499"


class TestReplace:
    async def test_value_and_index_change_and_the_old_index_becomes_free(self, store):
        await store.create(TABLE, Document("1", b"one", "i"))
        for value, index in ((b"new", "i"), (b"newer", "j"), (b"bare", None), (b"named", "k")):
            await store.replace(TABLE, Document("1", value, index))
            found = {name: await store.get_by_index(TABLE, name) for name in "ijk"}
            assert found == dict.fromkeys("ijk") | ({index: value} if index else {})
            assert await store.get(TABLE, "1") == value
        await store.create(TABLE, Document("2", b"two", "i"))

    async def test_an_unknown_key_is_an_error_even_with_a_taken_index(self, store):
        await store.create(TABLE, Document("1", b"one", "i"))
        with pytest.raises(DocumentNotFound):
            await store.replace(TABLE, Document("2", b"two", "i"))
        assert await scanned(store) == {"1": b"one"}

    async def test_an_index_of_another_document_is_refused_and_nothing_changes(self, store):
        await store.create(TABLE, Document("1", b"one", "i"))
        await store.create(TABLE, Document("2", b"two", "j"))
        with pytest.raises(DuplicateIndex):
            await store.replace(TABLE, Document("2", b"new", "i"))
        assert await store.get_by_index(TABLE, "i") == b"one"
        assert await store.get_by_index(TABLE, "j") == b"two"

    async def test_concurrent_replacements_leave_one_whole_document(self, store):
        await store.create(TABLE, Document("1", b"start", "start"))
        names = [f"n{n}" for n in range(20)]
        await asyncio.gather(
            *(store.replace(TABLE, Document("1", name.encode(), name)) for name in names)
        )
        found = [name for name in names if await store.get_by_index(TABLE, name) is not None]
        assert len(found) == 1
        assert await store.get(TABLE, "1") == found[0].encode()


class TestDelete:
    async def test_by_index_frees_key_and_index(self, store):
        await store.create(TABLE, Document("1", b"one", "i"))
        assert await store.delete_by_index(TABLE, "i") is True
        assert await store.delete_by_index(TABLE, "i") is False
        assert await store.get(TABLE, "1") is None
        await store.create(TABLE, Document("1", b"again", "i"))


class TestChange:
    async def test_writes_and_deletes_when_the_condition_holds(self, store):
        await store.change(TABLE, {"fence": b"1", "old": b"x", "kept": b"x"})
        puts = {"fence": b"2", "new": b"y"}
        assert await store.change(TABLE, puts, ["old", "never"], when=Expected("fence", b"1"))
        assert await scanned(store) == {"fence": b"2", "new": b"y", "kept": b"x"}

    @pytest.mark.parametrize("value", [b"", b"1", b"22", None])
    async def test_changes_nothing_when_another_value_is_found(self, store, value):
        before = {"fence": b"2", "old": b"x"}
        await store.change(TABLE, before)
        when = Expected("fence", value)
        assert not await store.change(TABLE, {"fence": b"3", "new": b"y"}, ["old"], when=when)
        assert await scanned(store) == before
        if value is not None:
            assert not await store.change("cards", {"fence": b"2"}, when=when)
            assert await scanned(store, "cards") == {}

    async def test_a_document_that_must_not_be_there_is_made_once(self, store):
        first = Expected("fence", None)
        assert await store.change(TABLE, {"fence": b""}, when=first)
        assert not await store.change(TABLE, {"fence": b"again"}, when=first)
        assert await scanned(store) == {"fence": b""}
        assert await store.change(TABLE, {}, ["fence"], when=Expected("fence", b""))
        assert await scanned(store) == {}

    async def test_values_are_any_bytes_and_keys_any_text(self, store):
        key, value = "ключ {x} 'y' \" \n", bytes(range(256))
        await store.change(TABLE, {key: value})
        changed = {key: value[::-1], "né": value}
        # what is both written and deleted is written
        assert await store.change(TABLE, changed, ["ñ", key], when=Expected(key, value))
        assert await scanned(store) == changed

    async def test_written_documents_keep_their_index_and_deleted_ones_free_it(self, store):
        await store.create(TABLE, Document("1", b"one", "i"))
        await store.create(TABLE, Document("2", b"two", "j"))
        assert await store.change(TABLE, {"1": b"new"}, ["2"], when=Expected("2", b"two"))
        assert await store.get_by_index(TABLE, "i") == b"new"
        await store.create(TABLE, Document("3", b"three", "j"))

    async def test_thousands_of_documents_at_once(self, store):
        old = {f"old {n}": b"x" * 700 for n in range(2_000)}
        new = {f"new {n}": b"%04d" % n * 175 for n in range(2_000)}
        assert await store.change(TABLE, old, when=Expected("fence", None))
        assert await store.change(TABLE, new, list(old), when=Expected("old 7", b"x" * 700))
        assert await scanned(store) == new

    async def test_concurrent_steps_from_value_to_value_are_all_counted(self, store, store_url):
        async def step(store, caller):
            while True:
                count = await store.get(TABLE, "count")
                counted = {"count": b"%d" % (int(count or 0) + 1), f"{caller}": count or b"0"}
                if await store.change(TABLE, counted, when=Expected("count", count)):
                    return

        other = open_store(store_url)
        await asyncio.gather(*(step((store, other)[n % 2], n) for n in range(24)))
        await other.close()
        found = await scanned(store)
        assert found.pop("count") == b"24"
        assert sorted(map(int, found.values())) == list(range(24))

    async def test_no_reader_sees_half_of_a_change(self, store):
        async def change():
            for n in range(1, 40):
                await store.change(TABLE, numbered(n), when=Expected("0", b"%d" % (n - 1)))

        def numbered(n):
            return {str(key): b"%d" % n for key in range(50)}

        await store.change(TABLE, numbered(0))
        changing = asyncio.create_task(change())
        while not changing.done():
            assert len(set((await scanned(store)).values())) == 1
        await changing
        assert await scanned(store) == numbered(39)


class TestScan:
    async def test_yields_each_document_of_its_table_once(self, store):
        await store.change(TABLE, {f"{n}": b"%d" % n for n in range(3210)})
        await store.change("cards", {"other": b"x"})
        keys = [key async for key, _ in store.scan(TABLE)]
        assert sorted(keys) == sorted(f"{n}" for n in range(3210))
        assert await scanned(store, "nothing") == {}

    async def test_sees_the_table_as_it_was_when_the_scan_began(self, store):
        before = {f"{n}": b"old" for n in range(3000)}
        await store.change(TABLE, before)
        scan = store.scan(TABLE)  # which can be left early
        assert await anext(scan)
        await scan.aclose()
        seen: dict[str, bytes] = {}
        async for key, value in store.scan(TABLE):
            if not seen:
                new = dict.fromkeys(before, b"new") | {"late": b"new"}
                await store.change(TABLE, new)
                await store.change(TABLE, {}, list(before)[::2])
            seen[key] = value
        assert seen == before


class TestCounter:
    async def test_concurrent_steps_get_different_counts_from_one(self, store):
        counts = await asyncio.gather(*(store.increment("login:ann", 60) for _ in range(30)))
        assert sorted(counts) == list(range(1, 31))
        assert await store.increment("login:bob", 60) == 1

    async def test_is_forgotten_after_its_lifetime_counted_from_the_first_step(self, store):
        await store.increment("short", 0.05)
        async with asyncio.timeout(5):
            while await store.count("short"):
                await asyncio.sleep(0.01)
            await store.increment("short", 0.05)
            while await store.increment("short", 0.05) != 1:
                await asyncio.sleep(0.01)

    async def test_reset_forgets(self, store):
        await store.increment("c", 60)
        assert await store.count("c") == 1
        await store.reset("c")
        assert await store.count("c") == 0
        assert await store.increment("c", 60) == 1
        await store.reset("never seen")


class TestLifeCycle:
    async def test_what_was_written_is_there_after_close(self, store, store_url):
        await store.create(TABLE, Document("1", b"one", "i"))
        await store.close()
        assert await store.get(TABLE, "1") == b"one"
        other = open_store(store_url)
        assert await other.get(TABLE, "1") == b"one"
        await other.close()

    async def test_a_pickled_store_works_elsewhere(self, store):
        await store.create(TABLE, Document("1", b"one", "i"))
        copy: Store = pickle.loads(pickle.dumps(store))
        await copy.close()  # unused
        assert await copy.get(TABLE, "1") == b"one"
        assert await copy.change(TABLE, {"1": b"new"}, when=Expected("1", b"one"))
        assert await store.get(TABLE, "1") == b"new"
        await copy.close()
        await copy.close()

    async def test_a_cancelled_call_leaves_the_store_usable(self, store):
        call = asyncio.create_task(store.create(TABLE, Document("1", b"one", "i")))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await store.create(TABLE, Document("2", b"two", "j"))
        assert await store.get(TABLE, "2") == b"two"
        for key, index in (("1", "i"), ("2", "j")):
            assert await store.get(TABLE, key) == await store.get_by_index(TABLE, index)
