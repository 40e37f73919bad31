"""Items of ``/predict_actions`` as columns, and the digests of observations."""

import math
from typing import Any

import numpy as np
import pytest

from deployments.inference.items import ItemReader, Items
from deployments.inference.policy_model import fingerprint_of, fingerprints_of
from deployments.inference.schemas import FLOAT32_MAX
from deployments.stateful.calls import ids_of
from deployments.stateful.row import RECEIPTS, Key
from models.networks.shipped import SHIPPED
from tests.unit.inference.policies import BIG, SMALL
from tests.unit.inference.serving import FakeService


@pytest.fixture
async def reader() -> ItemReader:
    return ItemReader(FakeService())


def item(obs: Any = (0.5,), junction: Any = SMALL, **more: Any) -> dict[str, Any]:
    return {
        "junction_id": junction,
        "obs_data": list(obs) if isinstance(obs, tuple) else obs,
        **more,
    }


def ids_in(read: Items) -> list[int]:
    """Return the digests of the idempotency keys."""
    assert read.steps.ids is not None
    ids: list[int] = read.steps.ids.tolist()
    return ids


VALID = [
    item(()),
    item((1, 0, 2, -FLOAT32_MAX, FLOAT32_MAX, 10**38), BIG),
    item((0.5,) * SHIPPED.max_obs, BIG, request_id=None, more=[1]),
    item(request_id="A-Z_0.9:x"),
]
WRONG: list[tuple[Any, int]] = [
    (None, 422),
    ("text", 422),
    ([SMALL, [0.5]], 422),
    ({"junction_id": SMALL}, 422),
    (item(None), 422),
    (item("5"), 422),
    (item({}), 422),
    (item(("5",)), 422),
    (item((False,)), 422),
    (item((None,)), 422),
    (item(([],)), 422),
    (item((math.nan,)), 422),
    (item((0.5, -math.inf)), 422),
    (item((math.nextafter(FLOAT32_MAX, math.inf),)), 422),
    (item((10**400,)), 422),
    (item(junction=[SMALL]), 422),
    (item(junction=1), 422),
    (item(junction="nope"), 404),
    (item((0.5,) * (SHIPPED.max_obs + 1), BIG), 400),
    (item(request_id=1), 422),
    (item(request_id=""), 400),
    (item(request_id="a b"), 400),
    *((item(**{name: None}), 422) for name in ("run_id", "RunID", "idempotency-key")),
]


async def test_valid_items_become_columns(reader):
    read = reader.read(VALID, "run", None)
    assert not read.refused
    assert list(read.steps.keys) == [Key("run", each["junction_id"]) for each in VALID]
    assert read.steps.inputs.agents == [SHIPPED.ids.index(each["junction_id"]) for each in VALID]
    for row, each in zip(read.steps.inputs.observations, VALID, strict=True):
        padded = each["obs_data"] + [0.0] * (SHIPPED.max_obs - len(each["obs_data"]))
        assert row.tolist() == np.array(padded, np.float32).tolist()
    assert ids_in(read) == ids_of([None, None, None, "A-Z_0.9:x"]).tolist()
    assert read.steps.prints[3] == fingerprint_of([0.5])


@pytest.mark.parametrize(("wrong", "status"), WRONG, ids=lambda each: str(each)[:40])
async def test_a_wrong_item_is_refused_and_the_others_are_as_without_it(reader, wrong, status):
    read = reader.read([VALID[0], wrong, *VALID[1:]], "run", None)
    assert {row: error.status for row, error in read.refused.items()} == {1: status}
    expected = reader.read(VALID, "run", None).steps
    assert read.steps.keys is expected.keys
    assert (read.steps.inputs.observations == expected.inputs.observations).all()
    assert (read.steps.ids == expected.ids).all()


async def test_items_without_a_key_have_that_of_the_request_and_their_place(reader):
    items = [item(), item(junction="nope"), item(request_id="own"), item()]
    assert ids_in(reader.read(items, "run", "key")) == ids_of(["key.0", "own", "key.3"]).tolist()
    assert reader.read([item()], "run", None).steps.ids is None


async def test_a_junction_has_at_most_as_many_keys_as_its_state_keeps(reader):
    with_keys = [item(request_id=f"{n}") for n in range(RECEIPTS)]
    others = [item(), item(junction=BIG, request_id="0")]
    assert not reader.read([*with_keys, *others], "run", None).refused
    read = reader.read([*with_keys, item(request_id="more"), *others], "run", None)
    assert {row: error.status for row, error in read.refused.items()} == {RECEIPTS: 422}
    assert set(reader.read([*with_keys, *others], "run", "key").refused) == {RECEIPTS}


@pytest.mark.parametrize("n_items", [1, RECEIPTS, RECEIPTS + 1])
async def test_the_key_of_a_request_may_have_the_full_length(reader, n_items):
    key = "k" * 64
    junctions = ([SMALL, BIG] * n_items)[:n_items]
    read = reader.read([item(junction=each) for each in junctions], "run", key)
    assert read.refused == {}
    assert ids_in(read) == ids_of([f"{key}.{row}" for row in range(n_items)]).tolist()


ROWS = np.random.default_rng(0).random((500, 19), np.float32)


def test_equal_rows_have_the_same_digest_in_every_batch_and_process():
    assert fingerprints_of(ROWS)[7:9].tolist() == fingerprints_of(ROWS[7:9]).tolist()
    (known,) = fingerprints_of(np.array([[1.0, 0.5, 0.0]], np.float32))
    assert known == 0x7FD6849C


def test_an_observation_alone_has_the_digest_that_it_has_in_a_batch():
    largest = np.finfo(np.float32).max
    rows = np.concatenate([ROWS, [[0.1, -0.0, largest, -largest, *[1e-45] * 15]]])
    alone = [fingerprint_of(row.tolist()) for row in rows]
    assert alone == fingerprints_of(rows.astype(np.float32)).tolist()
    assert fingerprint_of([]) == fingerprint_of([0, 0.0])


def test_rows_that_differ_in_one_value_or_in_their_order_have_other_digests():
    digests = set(fingerprints_of(ROWS).tolist())
    assert len(digests) == len(ROWS)
    for column in range(ROWS.shape[1]):
        changed = ROWS.copy()
        changed[:, column] = np.nextafter(changed[:, column], 2)
        assert digests.isdisjoint(fingerprints_of(changed).tolist())
    assert digests.isdisjoint(fingerprints_of(ROWS[:, ::-1]).tolist())
