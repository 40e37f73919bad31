"""The mutants fit the source, and what they match does not depend on its layout."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants import mutant as mutant_module
from tests.mutants.__main__ import ROOMS, choose
from tests.mutants.accepted import ACCEPTED
from tests.mutants.mutant import (
    Mutant,
    MutantError,
    Rewrite,
    drop,
    functions,
    parse,
    put,
    swap,
)
from tests.mutants.operators import mutants_of
from tests.mutants.run import replace_code
from tests.mutants.written import WRITTEN

SOURCE = '''
class Door:
    """A door."""

    async def open(self, key: str | None = None) -> bool:
        """Open the door, unless it is locked."""
        if self.locked and (key is None
                or not self.fits(key)):  # another key
            self.log.warning("It stays %s", "closed")
            raise ValueError(f"{1} key")
        try:
            await self.turn(min(self.angle, 90))
        except (OSError, TimeoutError):
            return False
        async with self.lock:
            self.opened += 1
        return self.opened > 0
'''


@pytest.fixture
def source_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "house.py").write_text(SOURCE)
    monkeypatch.setattr(mutant_module, "ROOT", tmp_path)
    return tmp_path


def changed(rewrite: Rewrite) -> str:
    return ast.unparse(Mutant("a defect", "house:Door.open", rewrite).tree())


class TestRewrites:
    pytestmark = pytest.mark.usefixtures("source_file")

    def test_a_statement_is_dropped_whatever_its_layout(self):
        assert "self.turn" not in changed(drop("await self.turn( min(self.angle,90) )"))

    def test_a_compound_statement_is_named_by_its_first_line(self):
        first_line = "if self.locked and (key is None or not self.fits(key)):"
        assert "raise" not in changed(drop(first_line))

    def test_statements_take_the_place_of_one_and_may_keep_its_body(self):
        source = changed(put("async with self.lock:", "pass\nBODY"))
        assert "lock:" not in source
        assert "self.opened += 1" in source

    def test_an_expression_takes_the_place_of_another(self):
        assert "raise KeyError(" in changed(swap("ValueError", "KeyError"))

    @pytest.mark.parametrize(
        ("rewrite", "message"),
        [
            (drop("self.close()"), "`self.close()` matches 0 times"),
            (swap("self.opened", "0"), "`self.opened` matches 2 times"),
            (swap("90", "90"), "nothing changes"),
        ],
    )
    def test_one_that_does_not_fit_exactly_once_is_refused_with_its_name(self, rewrite, message):
        with pytest.raises(MutantError, match=r"house:Door.open: a defect: .*") as refused:
            changed(rewrite)
        assert message in str(refused.value)

    def test_an_unknown_function_is_refused(self):
        with pytest.raises(MutantError, match="are called Door\\.shut"):
            Mutant("a defect", "house:Door.shut", drop("pass")).tree()


@pytest.mark.usefixtures("source_file")
def test_every_operator_finds_its_places_and_nothing_that_only_informs():
    assert [mutant.name for mutant in mutants_of("house")] == [
        "False for `self.locked and (key is None or not self.fits(key))`",
        "True for `self.locked and (key is None or not self.fits(key))`",
        "drop operand `self.locked` of `self.locked and (key is None or not self.fits(key))`",
        "drop operand `key is None or not self.fits(key)` of"
        " `self.locked and (key is None or not self.fits(key))`",
        "drop operand `key is None` of `key is None or not self.fits(key)`",
        "drop operand `not self.fits(key)` of `key is None or not self.fits(key)`",
        "without not: `not self.fits(key)`",
        "drop `raise ValueError(f'{1} key')`",
        "drop `await self.turn(min(self.angle, 90))`",
        "`self.angle` for `min(self.angle, 90)`",
        "`90` for `min(self.angle, 90)`",
        "max for `min(self.angle, 90)`",
        "91 for 90 in `min(self.angle, 90)`",
        "89 for 90 in `min(self.angle, 90)`",
        "do not catch `OSError`",
        "do not catch `TimeoutError`",
        "True for `return False`",
        "without `async with self.lock: …`",
        "drop `self.opened += 1`",
        "`self.opened -= 1` for `self.opened += 1`",
        "2 for 1 in `self.opened += 1`",
        "0 for 1 in `self.opened += 1`",
        "False for `self.opened > 0`",
        "True for `self.opened > 0`",
        "`self.opened >= 0` for `self.opened > 0`",
        "1 for 0 in `self.opened > 0`",
        "-1 for 0 in `self.opened > 0`",
    ]


@pytest.mark.usefixtures("source_file")
def test_every_generic_mutant_changes_its_function_alone():
    before = ast.parse(SOURCE)
    for mutant in mutants_of("house"):
        after = mutant.tree()
        assert ast.dump(after) != ast.dump(before), mutant.name
        compile(after, "house.py", "exec")


@pytest.mark.parametrize("mutant", WRITTEN, ids=lambda mutant: mutant.name.replace(" ", "_"))
def test_a_written_mutant_fits_the_source(mutant: Mutant):
    compile(mutant.tree(), "source", "exec")


def test_the_code_of_every_function_can_be_replaced():
    for module in [module for room in ROOMS for module in room.modules]:
        tree = parse(module)
        for name, _ in functions(tree):
            replace_code(module, name, tree)


def test_every_mutant_has_a_name_of_its_own():
    mutants = [m for room in ROOMS for module in room.modules for m in mutants_of(module)]
    names = Counter(map(str, (*mutants, *WRITTEN)))
    assert [name for name, n in names.items() if n > 1] == []
    assert ACCEPTED.keys() <= names.keys(), "accepted mutants exist"


def test_a_sample_is_repeated_by_its_seed():
    assert len(choose(50, 1, "")) == len(WRITTEN) + 50
    first, again = ([str(m) for m in choose(50, 1, "stateful")] for _ in range(2))
    assert first == again
    assert [str(m) for m in choose(50, 1, "")] != [str(m) for m in choose(50, 2, "")]
