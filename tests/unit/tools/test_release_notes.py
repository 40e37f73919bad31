"""The notes of a release are its section of the changelog."""

import tomllib

import pytest
import yaml

from tools.release_notes import ROOT, notes

MOST_WORDS = 900


def test_the_present_version_has_a_section_that_a_user_can_read():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    section = notes((ROOT / "CHANGELOG.md").read_text(), project["version"])
    assert 100 < len(section.split()) < MOST_WORDS
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == project["version"]


def test_a_section_ends_where_the_next_one_begins():
    assert notes("# Changelog\n\n## 2.0.0\n\nnew\n\n## 1.0.0\n\nold\n", "2.0.0") == "new\n"


def test_a_version_without_a_section_is_refused():
    with pytest.raises(ValueError, match=r"no section 9\.9\.9"):
        notes("## 1.0.0\n", "9.9.9")
