from __future__ import annotations

import pytest

from deployments.http.names import is_name
from deployments.http.request import header


@pytest.mark.parametrize(
    ("values", "read"),
    [
        ([], None),
        ([b"one"], "one"),
        ([b"one", b"one"], "one"),
        ([b"one", b"two"], "one, two"),
        ([b"one, two", b"three"], "one, two, three"),
    ],
    ids=str,
)
def test_no_one_of_several_different_headers_counts(values: list[bytes], read: str | None) -> None:
    scope = {"headers": [(b"other", b"x"), *((b"name", value) for value in values)]}
    assert header(scope, b"name") == read


def test_two_different_names_are_no_name() -> None:
    read = header({"headers": [(b"name", b"u1"), (b"name", b"u2")]}, b"name")
    assert read is not None
    assert not is_name(read)
