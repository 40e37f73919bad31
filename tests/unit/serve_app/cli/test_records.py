"""``greenwave store export`` and ``greenwave store import``."""

import json
from pathlib import Path
from typing import Any

import pytest

from deployments.customers import record_types
from deployments.customers.accounts import NewCustomer
from deployments.customers.records.service import document_of, random_number
from deployments.store import Store
from deployments.store.sqlite_worker import connect
from serve_app.cli.opened_store import with_store

TYPES = record_types()
LOAN = {
    "mobileNumber": "4354437687",
    "loanNumber": "548732457654",
    "loanType": "Home Loan",
    "totalLoan": 100000,
    "amountPaid": 1000,
    "outstandingAmount": 99000,
}


@pytest.fixture
def store(data_dir):
    """Create the store of the commands."""
    data_dir.mkdir()
    connect(data_dir / "greenwave.db").close()
    return data_dir / "greenwave.db"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "records.jsonl"


def fill(path: Path, mobiles: range) -> None:
    """Give each mobile number an account, a loan and a card."""

    async def work(store: Store) -> None:
        for mobile in map(str, mobiles):
            customer = NewCustomer(name="Zoë Müller", email="zoe@example", mobileNumber=mobile)
            for service, asked in {"accounts": customer, "loans": mobile, "cards": mobile}.items():
                number = random_number(TYPES[service].number_length)
                record = TYPES[service].new_record(asked, number)
                await store.create(service, document_of(record))

    with_store(f"sqlite:///{path}", work)


def contents(path: Path) -> dict[str, dict[str, Any]]:
    """Return every record of a store, by service and mobile number."""

    async def work(store: Store) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for service in TYPES:
            records = [json.loads(value) async for _, value in store.scan(service)]
            found[service] = {record["mobileNumber"]: record for record in records}
        return found

    return with_store(f"sqlite:///{path}", work)


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def loan(**changes: Any) -> dict[str, Any]:
    return {"service": "loans", "record": {**LOAN, **changes}}


def write(path: Path, *lines: Any) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


class TestExport:
    def test_an_import_makes_an_empty_store_the_same_and_again_changes_nothing(
        self, greenwave, store, file, tmp_path
    ):
        fill(store, range(1234567890, 1234567895))
        before = contents(store)
        assert greenwave("store", "export", str(file)).code == 0
        assert file.stat().st_mode & 0o777 == 0o600
        store.rename(tmp_path / "exported.db")
        for answer in ("Imported 15 records; 0 existed", "Imported 0 records; 15 existed already."):
            imported = greenwave("store", "import", str(file))
            assert (imported.code, answer in imported.err) == (0, True)
            assert contents(store) == before

    def test_each_instance_has_its_own_store(self, greenwave, file, tmp_path):
        second = ("--port-base", "23000")
        assert greenwave("store", "import", *second, write(file, loan())).code == 0
        exported = greenwave("store", "export", *second, str(tmp_path / "[second]"))
        assert lines_of(tmp_path / "[second]") == [loan()]
        assert "[second]" in exported.err

    def test_a_failed_export_leaves_the_old_file_and_no_part(self, file, monkeypatch, refuse):
        file.write_text("old")
        monkeypatch.setenv("STORE_URL", "redis://127.0.0.1:1")
        refuse(f"store export {file}", "redis: ")
        assert file.read_text() == "old"
        assert [each.name for each in file.parent.iterdir()] == [file.name]


class TestImport:
    def test_more_than_one_batch(self, greenwave, store, file):
        lines = [
            loan(mobileNumber=str(1000000000 + n), loanNumber=str(10**11 + n)) for n in range(2345)
        ]
        assert greenwave("store", "import", write(file, *lines)).code == 0
        assert len(contents(store)["loans"]) == 2345

    @pytest.mark.parametrize(
        ("changes", "value"),
        [
            ({"amountPaid": 5}, "4354437687"),  # the same record with another field
            ({"loanNumber": "999999999999"}, "4354437687"),  # the mobile number is taken
            ({"mobileNumber": "1111111111"}, "548732457654"),  # the loan number is taken
        ],
    )
    def test_a_conflict_is_reported_and_the_other_records_are_imported(
        self, greenwave, store, file, changes, value
    ):
        greenwave("store", "import", write(file, loan()))
        new = loan(mobileNumber="2222222222", loanNumber="222222222222")
        conflict = greenwave("store", "import", write(file, loan(**changes), new))
        assert conflict.code == 1
        assert f"line 1: loans have another record with {value}" in conflict.err
        assert contents(store)["loans"] == {"4354437687": LOAN, "2222222222": new["record"]}

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("[1]", "line 2: not a JSON object"),
            ('{"service": "loans"', "line 2: not a JSON object"),
            (
                '{"service": "boats", "record": {}}',
                "line 2: not a record of a known type (accounts, cards, loans)",
            ),
            ('{"service": ["loans"], "record": {}}', "line 2: not a record of a known type"),
            ('{"service": "loans", "record": 1}', "line 2: not a record of a known type"),
            ('{"record": {}}', "line 2: not a record of a known type"),
            (json.dumps(loan(totalLoan=0)), "totalLoan: Total loan amount should be greater"),
            (json.dumps(loan(totalLoan="1")), "line 2: not a JSON object, or a wrong type"),
            ("\n{", "line 3: not a JSON object"),  # blank lines count
        ],
    )
    def test_a_bad_line_prevents_the_import(self, store, file, line, reason, refuse):
        write(file, loan())
        file.write_text(f"{file.read_text()}{line}\n")
        refused = refuse(f"store import {file}", reason)
        assert "nothing was imported" in refused.err
        assert contents(store)["loans"] == {}

    def test_many_faults_are_counted_and_the_first_ones_shown(self, store, file, refuse):
        file.write_text("x\n" * 25)
        refused = refuse(f"store import {file}", "25 faults")
        assert "line 10:" in refused.err
        assert "line 11:" not in refused.err
        assert "... and 15 more" in refused.err
