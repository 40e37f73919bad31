"""What the documentation names is there: files, headings, modules, commands, figures."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from serve_app.cli import main as cli
from tests.documentation import EXAMPLES, PAGES, ROOT, anchors, commands, links, read

FOLDERS = "configs|deployments|docs|greenwave|lab|load_tests|models|serve_app|tests|tools"
PATH = re.compile(rf"(?<![\w/.~-])(?:{FOLDERS})/[\w*./-]*[\w*]")
# greenwave.db and greenwave.service are files of a running system
MODULE = re.compile(rf"(?<![\w/.-])(?!greenwave\.(?!client))(?:{FOLDERS})(?:\.\w+)+")
INLINE_MAKE = re.compile(r"`(?:[A-Z_]+=\S+ )?(make [a-z][^`]*)`")
NUMBER = re.compile(r"\d+(?:\.\d+)?")
README_WORDS = 600


def sources() -> Iterator[Path]:
    """Yield every file that a person writes and that may name another."""
    yield ROOT / "Makefile"
    for pattern in ("*.md", "*.yaml", "*.toml"):
        yield from ROOT.glob(pattern)
    for folder in FOLDERS.split("|"):
        for suffix in ("py", "md", "yaml", "toml", "tmpl", "html", "lua"):
            yield from (ROOT / folder).rglob(f"*.{suffix}")


def is_there(module: str) -> bool:
    """Return whether a dotted name starts with a module, or a package that knows the rest."""
    path = ROOT
    for name in module.split("."):
        if (path / f"{name}.py").exists():
            return True
        if not (path / name).is_dir():
            package = path / "__init__.py"
            return package.exists() and re.search(rf"\b{name}\b", package.read_text()) is not None
        path = path / name
    return True


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES])
def test_links_lead_to_files_and_headings(page):
    broken = [
        f"{path.name}#{anchor}"
        for path, anchor in links(page)
        if not path.exists() or (anchor and anchor not in anchors(path))
    ]
    assert broken == []


def test_every_page_is_in_the_index():
    listed = {path.resolve() for path, _ in links("docs/README.md")}
    assert {ROOT / page for page in PAGES if page.startswith("docs/")} - listed == {
        ROOT / "docs/README.md"
    }


def test_every_example_is_in_the_table_of_examples():
    listed = {path.resolve() for path, _ in links("examples/README.md")}
    assert {ROOT / page for page in EXAMPLES} - listed == {ROOT / "examples/README.md"}


# Not of this project: a folder of Swagger UI; a module that a test wants to be missing. Of a wheel:
# `greenwave/_app`.
@pytest.mark.parametrize(
    ("pattern", "exists", "elsewhere"),
    [
        (
            PATH,
            lambda name: name.startswith("greenwave/_app") or any(ROOT.glob(name)),
            {"docs/assets"},
        ),
        (MODULE, is_there, {"serve_app.nowhere", "load_tests.bench.nowhere"}),
    ],
    ids=["paths", "modules"],
)
def test_what_is_named_in_code_configs_and_pages_exists(pattern, exists, elsewhere):
    named = {(name, str(file)) for file in sources() for name in pattern.findall(file.read_text())}
    assert len(named) > 20
    missing = {(name, file) for name, file in named if not exists(name)}
    assert {each for each in missing if each[0] not in elsewhere} == set()


def test_every_message_that_troubleshooting_explains_is_in_the_source():
    source = " ".join(
        re.sub(r'"\s*\n?\s*f?r?"', "", path.read_text())
        for path in [
            *(ROOT / "deployments").rglob("*.py"),
            *(ROOT / "serve_app").rglob("*.py"),
            ROOT / "configs/edge.cfg.tmpl",
        ]
    )
    rows = re.findall(r"^\| (.*?) \|", read("docs/troubleshooting.md"), re.MULTILINE)
    quoted = [text for row in rows for text in re.findall(r"`([^`]+ [^`]+)`", row)]
    # of Ray; two commands
    elsewhere = ("Token authentication is enabled", "serve deploy", "make ")
    messages = [text for text in quoted if not text.startswith(elsewhere)]
    assert len(messages) > 15
    parts = {
        part
        for text in messages
        for part in re.split(r" ?… ?|\b[A-Z]{4,}\b|\d+|: | (?=does not|was not)", text)
        if len(part) > 5
    }
    assert {part for part in parts if part not in source} == set()


@pytest.mark.parametrize("page", PAGES)
def test_make_knows_every_command_of_the_page(page):
    quoted = [each for line in INLINE_MAKE.findall(read(page)) for each in line.split("&&")]
    shown = [each for each in commands(page) if each[0] == "make"]
    for command in {tuple(each) for each in [*map(shlex.split, quoted), *shown]}:
        plan = subprocess.run(
            ["make", "-n", *command[1:]], cwd=ROOT, capture_output=True, text=True
        )
        assert plan.returncode == 0, plan.stderr
        assert all(map(find_spec, re.findall(r"python -m ([\w.]+)", plan.stdout))), command


def test_the_readme_leads_to_the_index_and_to_what_shows_the_system_at_work():
    led_to = {str(path.resolve().relative_to(ROOT)) for path, _ in links("README.md")}
    assert "docs/README.md" in led_to
    (row,) = [line for line in read("README.md").splitlines() if "| see what it does |" in line]
    for word in ("console", "dashboards", "logs", "traces"):
        assert re.search(rf"\[[^]]*{word}", row), word


def test_the_readme_is_short_and_its_figures_are_those_of_the_pages():
    text = read("README.md")
    assert len(text.split()) < README_WORDS
    section = text.partition("## Main figures")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if "](docs/" in line]
    assert len(rows) > 3
    for row in rows:
        figures, _, page = row.rpartition("](")
        measured = figures.rpartition("| [")[0].partition("|")[2].partition("|")[2]
        explained = set(NUMBER.findall(read(page.partition("#")[0])))
        assert set(NUMBER.findall(measured)) - explained == set(), row


@pytest.mark.long
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_programs_know_the_options_that_the_page_gives_them(page):
    """Ask for help, which checks what comes before it and starts nothing."""
    for program, *arguments in commands(page):
        match Path(program).name:
            case "make":
                continue  # its plan is a unit test's matter
            case "cp" | "eval" | "export" | "grafana" | "mkdir" | "prometheus":
                continue  # of the operating system and the shell
            case "greenwave":
                with pytest.raises(SystemExit) as exit_:
                    cli.main([*arguments, "--help"])
                assert exit_.value.code == 0
            case name:
                command = [str(Path(sys.executable).parent / name), *arguments, "--help"]
                result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
                assert result.returncode == 0, result.stderr
