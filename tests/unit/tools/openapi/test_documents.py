"""The committed OpenAPI documents are those of the code, and keep what clients were promised."""

from __future__ import annotations

import copy
import json

import pytest

from serve_app.rollout.services import SERVICES
from tools.openapi.__main__ import FOLDER, RELEASED, broken_promises, main
from tools.openapi.documents import Document, documents, rendered

DECLARED = documents()


@pytest.mark.parametrize("name", DECLARED)
def test_the_committed_document_is_what_the_code_declares(name):
    committed = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert committed == rendered(DECLARED[name]), "run `make openapi`"


def test_clients_survive_what_has_changed_since_the_release():
    assert broken_promises(FOLDER, DECLARED) == []


def test_every_service_has_a_document_and_a_promise():
    assert len(DECLARED) >= len(SERVICES)
    for folder in (FOLDER, FOLDER / RELEASED):
        assert {file.stem for file in folder.glob("*.json")} == set(DECLARED)


def test_documents_do_not_depend_on_the_environment(monkeypatch):
    monkeypatch.setenv("LOANS_UPDATE_VALIDATION_STATUS", "400")
    assert documents() == DECLARED


@pytest.fixture
def folder(tmp_path):
    """Make a folder in which today's documents are released."""
    assert main(["--release"], tmp_path, DECLARED) == 0
    return tmp_path


def changed(name: str = "gateway") -> tuple[dict[str, Document], Document]:
    declared = copy.deepcopy(DECLARED)
    return declared, declared[name]


@pytest.mark.parametrize("arguments", [[], ["--release"]])
def test_writing_anew_refuses_an_incompatible_change_and_writes_nothing(folder, capsys, arguments):
    before = {file: file.read_text() for file in folder.rglob("*.json")}
    declared, gateway = changed()
    del gateway["paths"]["/traffic/reset"]
    declared["flow"]["info"]["title"] = "Another title"
    assert main(arguments, folder, declared) == 1
    assert "gateway: POST /traffic/reset: the operation was there, is gone" in (
        capsys.readouterr().err
    )
    assert {file: file.read_text() for file in folder.rglob("*.json")} == before


def test_an_incompatible_change_in_a_document_that_was_edited_is_still_noticed(folder):
    declared, gateway = changed()
    del gateway["paths"]["/traffic/reset"]
    (folder / "gateway.json").write_text(rendered(gateway))
    assert len(broken_promises(folder, declared)) == 1


def test_a_service_that_is_gone_is_noticed(folder):
    declared, _ = changed()
    del declared["cards"]
    assert broken_promises(folder, declared) == ["cards: the service was removed"]


def test_a_compatible_change_is_written_and_promised_with_the_release(folder):
    declared, gateway = changed()
    gateway["paths"]["/traffic/new"] = {}
    assert main([], folder, declared) == 0
    assert json.loads((folder / "gateway.json").read_text()) == gateway
    assert json.loads((folder / RELEASED / "gateway.json").read_text()) == DECLARED["gateway"]
    assert main(["--release"], folder, declared) == 0
    assert json.loads((folder / RELEASED / "gateway.json").read_text()) == gateway


def test_a_new_major_version_lets_go_of_a_promise_and_a_minor_one_does_not(folder):
    declared, gateway = changed()
    del gateway["paths"]["/traffic/reset"]
    gateway["info"]["version"] = "2.1.0"
    assert len(broken_promises(folder, declared)) == 1
    gateway["info"]["version"] = "3.0.0"
    assert broken_promises(folder, declared) == []
    assert main([], folder, declared) == 0
