"""Export and import of customer records on the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from deployments.customers import record_types
from deployments.customers.accounts import NewCustomer
from deployments.customers.records.service import RecordService
from deployments.store import Store, open_store
from deployments.store.sqlite_worker import connect
from serve_app.cli.main import main

TYPES = record_types()


@pytest.fixture
def store_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of the store that the command uses."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    monkeypatch.setenv("STORE_URL", url)
    connect(tmp_path / "store.db").close()
    return url


def filled(url: str, mobiles: range) -> None:
    """Give each mobile number an account, a loan and a card."""

    async def fill() -> None:
        store = open_store(url)
        for mobile in map(str, mobiles):
            await RecordService(TYPES["accounts"], store).create_from(
                NewCustomer, {"name": "Zoë Müller", "email": "zoe@example", "mobileNumber": mobile}
            )
            await RecordService(TYPES["loans"], store).create_for(mobile)
            await RecordService(TYPES["cards"], store).create_for(mobile)
        await store.close()

    asyncio.run(fill())


def contents(url: str) -> dict[str, dict[str, Any]]:
    """Return every record of a store, by service and mobile number."""

    async def read() -> dict[str, dict[str, Any]]:
        store: Store = open_store(url)
        found: dict[str, dict[str, Any]] = {}
        for service in TYPES:
            records = [json.loads(value) async for _, value in store.scan(service)]
            found[service] = {record["mobileNumber"]: record for record in records}
        await store.close()
        return found

    return asyncio.run(read())


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


LOAN = {
    "mobileNumber": "4354437687",
    "loanNumber": "548732457654",
    "loanType": "Home Loan",
    "totalLoan": 100000,
    "amountPaid": 1000,
    "outstandingAmount": 99000,
}


def loan(**changes: Any) -> dict[str, Any]:
    return {"service": "loans", "record": {**LOAN, **changes}}


def write_lines(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


class TestExport:
    def test_every_record_is_a_line(self, store_url: str, tmp_path: Path):
        filled(store_url, range(1234567890, 1234567895))
        path = tmp_path / "records.jsonl"
        assert main(["export", str(path)]) == 0
        found: dict[str, dict[str, Any]] = {service: {} for service in TYPES}
        for line in lines_of(path):
            found[line["service"]][line["record"]["mobileNumber"]] = line["record"]
        assert found == contents(store_url)
        assert len(lines_of(path)) == 15

    def test_an_empty_store_gives_an_empty_file(self, store_url: str, tmp_path: Path):
        assert main(["export", str(tmp_path / "records.jsonl")]) == 0
        assert (tmp_path / "records.jsonl").read_bytes() == b""

    def test_only_the_owner_may_read_the_file(self, store_url: str, tmp_path: Path):
        main(["export", str(tmp_path / "records.jsonl")])
        assert (tmp_path / "records.jsonl").stat().st_mode & 0o777 == 0o600

    def test_a_failed_export_leaves_the_old_file_and_no_part(
        self, tmp_path: Path, monkeypatch, capsys
    ):
        path = tmp_path / "records.jsonl"
        path.write_text("old")
        monkeypatch.setenv("STORE_URL", "redis://127.0.0.1:1")
        assert main(["export", str(path)]) == 1
        assert "redis: " in capsys.readouterr().err
        assert path.read_text() == "old"
        assert [file.name for file in tmp_path.iterdir()] == ["records.jsonl"]

    def test_a_folder_that_is_not_there(self, store_url: str, tmp_path: Path, capsys):
        assert main(["export", str(tmp_path / "no" / "records.jsonl")]) == 1
        assert "No such file or directory" in capsys.readouterr().err


class TestImport:
    def test_into_an_empty_store_makes_it_the_same(self, store_url, tmp_path, monkeypatch):
        filled(store_url, range(1234567890, 1234567895))
        path = tmp_path / "records.jsonl"
        main(["export", str(path)])
        other = f"sqlite:///{tmp_path / 'other.db'}"
        monkeypatch.setenv("STORE_URL", other)
        assert main(["import", str(path)]) == 0
        assert contents(other) == contents(store_url)

    def test_more_than_one_batch(self, store_url: str, tmp_path: Path):
        lines = [
            loan(mobileNumber=str(1000000000 + n), loanNumber=str(10**11 + n)) for n in range(2345)
        ]
        assert main(["import", str(write_lines(tmp_path / "f", *lines))]) == 0
        assert len(contents(store_url)["loans"]) == 2345

    def test_a_second_time_changes_nothing(self, store_url: str, tmp_path: Path, capsys):
        filled(store_url, range(1234567890, 1234567893))
        before = contents(store_url)
        path = tmp_path / "records.jsonl"
        main(["export", str(path)])
        assert main(["import", str(path)]) == 0
        assert "Imported 0 records; 9 existed already." in capsys.readouterr().err
        assert contents(store_url) == before

    @pytest.mark.parametrize(
        ("changes", "value"),
        [
            ({"amountPaid": 5}, "4354437687"),  # the same record with another field
            ({"loanNumber": "999999999999"}, "4354437687"),  # the mobile number is taken
            ({"mobileNumber": "1111111111"}, "548732457654"),  # the loan number is taken
        ],
    )
    def test_a_conflict_is_reported_and_the_other_records_are_imported(
        self, store_url, tmp_path, capsys, changes, value
    ):
        main(["import", str(write_lines(tmp_path / "first", loan()))])
        new = loan(mobileNumber="2222222222", loanNumber="222222222222")
        conflicting = loan(**changes)
        assert main(["import", str(write_lines(tmp_path / "second", conflicting, new))]) == 1
        shown = capsys.readouterr().err
        assert f"line 1: loans have another record with {value}" in shown
        assert contents(store_url)["loans"] == {"4354437687": LOAN, "2222222222": new["record"]}

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
        ],
    )
    def test_one_bad_line_and_nothing_is_imported(self, store_url, tmp_path, capsys, line, reason):
        path = write_lines(tmp_path / "f", loan())
        path.write_text(path.read_text() + line + "\n")
        assert main(["import", str(path)]) == 1
        shown = capsys.readouterr().err
        assert reason in shown
        assert "nothing was imported" in shown
        assert contents(store_url)["loans"] == {}

    def test_many_faults_are_counted_and_the_first_ones_shown(self, store_url, tmp_path, capsys):
        path = tmp_path / "f"
        path.write_text("x\n" * 25)
        assert main(["import", str(path)]) == 1
        shown = capsys.readouterr().err
        assert "25 faults" in shown
        assert "line 10:" in shown
        assert "line 11:" not in shown
        assert "... and 15 more" in shown

    def test_blank_lines_are_skipped_and_still_counted(self, store_url, tmp_path, capsys):
        path = write_lines(tmp_path / "f", loan())
        path.write_text("\n" + path.read_text() + "\n{\n")
        assert main(["import", str(path)]) == 1
        assert "line 4:" in capsys.readouterr().err

    def test_a_file_that_is_not_there(self, store_url: str, tmp_path: Path, capsys):
        assert main(["import", str(tmp_path / "nothing")]) == 1
        assert "No such file or directory" in capsys.readouterr().err

    def test_an_unknown_store(self, tmp_path: Path, monkeypatch, capsys):
        monkeypatch.setenv("STORE_URL", "postgres://localhost")
        assert main(["import", str(write_lines(tmp_path / "f", loan()))]) == 1
        assert "unknown store URL scheme" in capsys.readouterr().err


def test_each_instance_has_its_own_store(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("STORE_URL", raising=False)
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    path = write_lines(tmp_path / "f", loan())
    assert main(["import", "--port-base", "23000", str(path)]) == 0
    assert main(["export", "--port-base", "23000", str(tmp_path / "[second]")]) == 0
    assert lines_of(tmp_path / "[second]") == [loan()]
    assert "[second]" in capsys.readouterr().err


def test_a_missing_store_is_not_an_empty_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("STORE_URL", f"sqlite:///{tmp_path / 'mistyped' / 'store.db'}")
    assert main(["export", str(tmp_path / "f")]) == 1
    assert "There is no store at" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["export", "import"])
def test_help_names_the_store_variable(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "STORE_URL" in capsys.readouterr().out
