"""The committed OpenAPI documents are those of the code."""

import pytest

from serve_app.rollout.services import SERVICES
from tools.openapi import FOLDER, documents, rendered

DECLARED = documents()


@pytest.mark.parametrize("name", DECLARED)
def test_the_committed_document_is_what_the_code_declares(name):
    committed = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert committed == rendered(DECLARED[name]), "run `make reference`"


def test_every_service_has_a_document_and_no_other():
    assert len(DECLARED) >= len(SERVICES)
    assert {file.stem for file in FOLDER.iterdir()} == set(DECLARED)


def test_documents_do_not_depend_on_the_environment(monkeypatch):
    monkeypatch.setenv("LOANS_UPDATE_VALIDATION_STATUS", "400")
    assert documents() == DECLARED
