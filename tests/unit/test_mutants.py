"""The mutants fit the source: each text stands in its file once, and the change is Python."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.mutants.__main__ import MUTANTS, ROOT
from tests.mutants.mutant import CORE, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "_"))
def test_it_changes_one_place_of_the_source(mutant: Mutant) -> None:
    source = (ROOT / CORE / mutant.file).read_text(encoding="utf-8")
    assert source.count(mutant.old) == 1
    changed = source.replace(mutant.old, mutant.new)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))


def test_each_has_a_name_of_its_own() -> None:
    assert [name for name, n in Counter(each.name for each in MUTANTS).items() if n > 1] == []
