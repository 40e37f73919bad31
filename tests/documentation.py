"""The documentation as tests read it: pages, links, commands, and calls with their answers."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "models/**/*.md")
    for path in ROOT.glob(pattern)
)
EXAMPLES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("examples/**/*.md"))

_SHELL_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ASSIGNMENT = re.compile(r"[A-Z_]+=")
_ANSWER = "# {"


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def links(page: str) -> Iterator[tuple[Path, str]]:
    """Yield the file and the anchor, maybe empty, of each link within the project."""
    for target in _LINK.findall(read(page)):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            yield ((ROOT / page).parent / path if path else ROOT / page), anchor


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, made as GitHub makes them."""
    headings = _HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def shell_blocks(page: str) -> list[str]:
    return _SHELL_BLOCK.findall(read(page))


def commands(page: str) -> list[list[str]]:
    """Split the shell blocks that call no service into each command's words, without variables."""
    lines = [
        line for block in shell_blocks(page) if "curl" not in block for line in block.split("\n")
    ]
    words = (shlex.split(each, comments=True) for line in lines for each in line.split("&&"))
    programs = (list(dropwhile(_ASSIGNMENT.match, each)) for each in words)
    return [each for each in programs if each]


@dataclass(frozen=True)
class Call:
    """Lines of a shell block up to an answer, and that answer as the page shows it."""

    script: str
    answer: str


def calls(page: str) -> list[Call]:
    """Return the calls of services that a page shows.

    Raises:
        ValueError: a page shows a call without its answer.
    """
    found, script = [], ""
    for block in shell_blocks(page):
        if "curl" not in block:
            continue
        for line in block.splitlines(keepends=True):
            if line.startswith(_ANSWER):
                found.append(Call(script, line.removeprefix("# ")))
                script = ""
            else:
                script += line
    if "curl" in script:
        raise ValueError(f"{page} shows no answer to: {script}")
    return found
