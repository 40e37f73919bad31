"""Stage the documentation for its site: every page where the repository has it, and its pictures.

A link to code, which the site does not have, becomes its text with the path. ``make docs`` builds
the site from what this writes.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STAGED = ROOT / "reports" / "site" / "pages"
PARTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "examples")
SUFFIXES = (".md", ".png", ".svg", ".css")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)")


def files() -> list[Path]:
    """Return the pages and pictures, relative to the repository."""
    found = [path for part in PARTS for path in (ROOT / part, *(ROOT / part).rglob("*"))]
    return [path.relative_to(ROOT) for path in found if path.suffix in SUFFIXES]


def without_links_to_code(text: str, page: Path, staged: set[Path]) -> str:
    """Return a page in which every link leads to a staged file."""

    def replace(link: re.Match[str]) -> str:
        target = (ROOT / page).parent.joinpath(link[2]).resolve()
        if not target.is_relative_to(ROOT) or target.relative_to(ROOT) in staged:
            return link[0]
        return f"{link[1]} (`{target.relative_to(ROOT)}`)"

    return LINK.sub(replace, text)


def main() -> None:
    shutil.rmtree(STAGED, ignore_errors=True)
    staged = set(files())
    for path in staged:
        (STAGED / path).parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = (ROOT / path).read_text(encoding="utf-8")
            text = without_links_to_code(text, path, staged)
            (STAGED / path).write_text(text, encoding="utf-8")
        else:
            shutil.copy(ROOT / path, STAGED / path)


if __name__ == "__main__":
    main()
