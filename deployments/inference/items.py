"""What the items of ``/predict_actions`` ask the policy for: a step for each valid one.

Items are checked together, as columns. Only if that finds a fault is each validated separately,
which costs several times as much, and names the fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from deployments.http.messages import is_misnamed, is_name, not_read
from deployments.inference.errors import InferenceError, first_fault, too_many_keys
from deployments.inference.policy_model import ObservedRows, fingerprints_of
from deployments.inference.schemas import FLOAT32_MAX, BatchItem
from deployments.inference.service import InferenceService, keys_of, request_id_of
from deployments.stateful.calls import Rows, ids_of
from deployments.stateful.row import RECEIPTS

_ITEM = TypeAdapter(BatchItem)
_FIELDS = BatchItem.model_fields.keys()


class Items(NamedTuple):
    """The steps of one request.

    Attributes:
        steps: of the valid items, in their order.
        refused: the other items.
    """

    steps: Rows
    refused: dict[int, InferenceError]


class ItemReader:
    """Reads the items of a network's policy."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service
        self._max_obs = service.network.max_obs
        self._agents = {name: agent for agent, name in enumerate(service.network.ids)}

    def read(self, items: Sequence[Any], run: str, key: str | None) -> Items:
        """Return the steps that a request asks for.

        Args:
            key: idempotency key of the request; item N without one has the key ``KEY.N``.
        """
        rows: Sequence[int] = range(len(items))
        steps = self._steps(items, rows, run, key)
        if steps is not None:
            return Items(steps, {})
        refused: dict[int, InferenceError] = {}
        keyed: Counter[str] = Counter()
        for row, item in enumerate(items):
            try:
                self._check(item, key is not None, keyed)
            except InferenceError as error:
                refused[row] = error
        rows = [row for row in rows if row not in refused]
        steps = self._steps([items[row] for row in rows], rows, run, key)
        assert steps is not None, "the others are valid"
        return Items(steps, refused)

    def _steps(
        self, items: Sequence[Any], rows: Sequence[int], run: str, key: str | None
    ) -> Rows | None:
        """Return a step for each of some items; None if one is not valid.

        Args:
            rows: of the items in the request.
        """
        try:
            junctions = [item["junction_id"] for item in items]
            agents = [self._agents[junction] for junction in junctions]
            observations = [item["obs_data"] for item in items]
        except (KeyError, TypeError):
            return None
        members: set[str] = set().union(*items)
        if any(map(is_misnamed, members - _FIELDS)):
            return None
        ids: list[str | None] = [None] * len(items)
        if "request_id" in members:
            ids = [item.get("request_id") for item in items]
        observed = self._observed(observations)
        if observed is None:
            return None
        has_keys = key is not None or ids.count(None) < len(ids)
        if has_keys and not _are_keys(ids, junctions, key is not None):
            return None
        if key is not None:
            numbered = zip(rows, ids, strict=True)
            ids = [f"{key}.{row}" if each is None else each for row, each in numbered]
        return Rows(
            keys_of((run,) * len(junctions), tuple(junctions)),
            ObservedRows(agents, observed),
            ids_of(ids) if has_keys else None,
            fingerprints_of(observed) if has_keys else None,
        )

    def _observed(self, observations: Sequence[Any]) -> NDArray[np.float32] | None:
        """Return observations as an array; None if one is not valid."""
        if not set(map(type, observations)) <= {list}:
            return None
        sizes = tuple(map(len, observations))
        if max(sizes, default=0) > self._max_obs:
            return None
        values = list(chain.from_iterable(observations))
        if not set(map(type, values)) <= {float, int}:
            return None
        try:
            flat = np.fromiter(values, np.float64, len(values))
        except OverflowError:
            return None
        if not np.maximum.reduce(np.abs(flat), initial=0.0) <= FLOAT32_MAX:  # NaN is not
            return None
        observed = np.zeros((len(sizes), self._max_obs), np.float32)
        observed.ravel()[_places_of(sizes, self._max_obs)] = flat
        return observed

    def _check(self, item: Any, has_key: bool, keyed: Counter[str]) -> None:
        """Check one item.

        Args:
            has_key: whether an item without a ``request_id`` has an idempotency key.
            keyed: items with a key so far, by junction.

        Raises:
            InferenceError: the item is wrong.
        """
        try:
            valid = _ITEM.validator.validate_python(item)
        except ValidationError as error:
            raise InferenceError(422, first_fault(error, "item")) from None
        for name in filter(is_misnamed, item.keys() - _FIELDS):
            raise InferenceError(422, not_read(name))
        if request_id_of(valid.request_id) is not None or has_key:
            keyed[valid.junction_id] += 1
            if keyed[valid.junction_id] > RECEIPTS:
                raise too_many_keys()
        self._service.checked(valid.junction_id, valid.obs_data)


@lru_cache(maxsize=32)
def _places_of(sizes: tuple[int, ...], width: int) -> NDArray[np.intp]:
    """Return where the values of rows are that are padded to a width."""
    return np.flatnonzero(np.arange(width) < np.array(sizes, np.intp)[:, None])


def _are_keys(ids: Sequence[str | None], junctions: Sequence[str], has_key: bool) -> bool:
    """Return whether idempotency keys are valid, and few enough for each junction.

    Args:
        has_key: whether an item without one has a key.
    """
    if not all(each is None or (isinstance(each, str) and is_name(each)) for each in ids):
        return False
    if len(ids) <= RECEIPTS:
        return True
    keyed = Counter(junctions[row] for row, each in enumerate(ids) if has_key or each is not None)
    return max(keyed.values()) <= RECEIPTS
