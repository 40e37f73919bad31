"""The notes of a release are its section of the changelog."""

import re
import tomllib

import yaml

from tests.documentation import ROOT

MOST_WORDS = 900


def test_the_present_version_has_a_section_that_a_user_can_read():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    _, *sections = re.split(r"(?m)^## ", (ROOT / "CHANGELOG.md").read_text())
    (section,) = [each for each in sections if each.startswith(f"{version}\n")]
    assert 100 < len(section.split()) < MOST_WORDS
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
