"""The site has every page, and no link to what it does not have."""

from pathlib import Path

import pytest
import yaml

from tools.docs_site import LINK, ROOT, files, without_links_to_code


def pages(navigation: list[dict[str, object]]) -> list[str]:
    found: list[str] = []
    for entry in navigation:
        for value in entry.values():
            found += [value] if isinstance(value, str) else pages(value)  # type: ignore[arg-type]
    return found


def test_every_page_is_in_the_navigation_once():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    staged = [str(path) for path in files() if path.suffix == ".md"]
    assert sorted(pages(config["nav"])) == sorted(staged)


@pytest.mark.parametrize("page", [path for path in files() if path.suffix == ".md"], ids=str)
def test_every_link_of_a_staged_page_leads_to_a_staged_file(page):
    staged = set(files())
    text = without_links_to_code((ROOT / page).read_text(encoding="utf-8"), page, staged)
    targets = [(ROOT / page).parent.joinpath(link[2]).resolve() for link in LINK.finditer(text)]
    assert [each for each in targets if each.relative_to(ROOT) not in staged] == []


def test_a_link_to_code_becomes_its_path():
    text = "[The engine](deployments/stateful/table.py) and [docs](docs/README.md#top)"
    linked = without_links_to_code(text, Path("README.md"), {Path("docs/README.md")})
    assert linked == "The engine (`deployments/stateful/table.py`) and [docs](docs/README.md#top)"
