"""Runs tests on mutants: collects the tests once, and forks a process for each mutant.

The process gets the code of the mutated function, and runs the tests that reach the function, the
fastest first. Which tests those are is recorded before, by one run on the source as it is.
"""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest

from tests.mutants.mutant import ROOT, Mutant, MutantError, functions, parse, path_of
from tests.version import VERSION_VARIABLE, version

TEST_TIMEOUT_S = 200
"""A test that hangs has found the defect, too."""

CPU_S = 1200
"""Of one mutant. A process that needs more hangs, and has found the defect."""

_OPTIONS = [
    *("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"),
    *("-o", f"timeout={TEST_TIMEOUT_S}"),
]


class Verdict(NamedTuple):
    """What became of a mutant.

    Attributes:
        killer: the test that failed first; "" if none did.
    """

    mutant: Mutant
    killer: str
    seconds: float


class TestsFailError(Exception):
    """The tests fail without a defect."""


def judge(
    mutants: Sequence[Mutant], modules: Sequence[str], tests: Sequence[str], jobs: int
) -> Iterator[Verdict]:
    """Yield the verdict of each mutant, in the order in which they are known.

    Args:
        modules: that have the mutants.
        tests: folders.

    Raises:
        TestsFailError: a test fails without a defect.
    """
    os.environ[VERSION_VARIABLE] = version()  # or a mutant would meet schedules of its own
    os.environ["OMP_NUM_THREADS"] = "1"
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        loop = _Loop(mutants, modules, jobs, os.fdopen(writer, "w", buffering=1))
        pytest.main([*_OPTIONS, *(str(ROOT / each) for each in tests)], plugins=[loop])
        os._exit(0)
    os.close(writer)
    n_verdicts = 0
    with os.fdopen(reader) as verdicts:
        for line in verdicts:
            number, killer, seconds = json.loads(line)
            if number is None:
                raise TestsFailError(killer)
            n_verdicts += 1
            yield Verdict(mutants[number], killer, seconds)
    os.waitpid(pid, 0)
    if n_verdicts < len(mutants):
        raise TestsFailError("pytest ended before all mutants were judged")


class _Test(NamedTuple):
    """A test, and what it did without a defect."""

    item: pytest.Item
    seconds: float
    reached: frozenset[str]


class _Loop:
    """A plugin that runs the mutants in place of the collected tests."""

    def __init__(
        self, mutants: Sequence[Mutant], modules: Sequence[str], jobs: int, verdicts: Any
    ) -> None:
        self._mutants = mutants
        self._modules = modules
        self._jobs = jobs
        self._verdicts = verdicts
        self._failed = ""

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._tell(None, f"{report.nodeid}: {report.longreprtext}", 0.0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._failed:
            self._failed = f"{report.nodeid}\n{report.longreprtext}"

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            return True
        gc.collect()
        gc.freeze()  # or each process would copy every page
        with tempfile.TemporaryDirectory() as folder:
            tests = self._record(session.items, Path(folder))
            if tests is not None:
                self._judge(tests, Path(folder))
        return True

    def _tell(self, number: int | None, killer: str, seconds: float) -> None:
        self._verdicts.write(json.dumps([number, killer, seconds]) + "\n")

    def _record(self, items: Sequence[pytest.Item], folder: Path) -> list[_Test] | None:
        """Run all tests; return None if one fails."""
        reports = [folder / f"record-{n}" for n in range(self._jobs)]
        work = [
            partial(self._record_some, items[n :: self._jobs], report)
            for n, report in enumerate(reports)
        ]
        list(_in_processes(work, self._jobs))
        recorded: dict[str, tuple[float, list[str]]] = {}
        for report in reports:
            found = json.loads(report.read_text()) if report.exists() else "a process has died"
            if isinstance(found, str):
                self._tell(None, found, 0.0)
                return None
            recorded |= found
        tests = [
            _Test(item, seconds, frozenset(reached))
            for item in items
            for seconds, reached in [recorded[item.nodeid]]
        ]
        return sorted(tests, key=lambda test: test.seconds)

    def _record_some(self, items: Sequence[pytest.Item], report: Path) -> None:
        reached: set[str] = set()
        for module in self._modules:
            tree = _with_probes(module)
            vars(importlib.import_module(module))["_reached"] = reached.add
            for name, _ in functions(tree):
                replace_code(module, name, tree)
        recorded: dict[str, tuple[float, list[str]]] = {}
        for item, following in _pairs(items):
            reached.clear()
            started = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            seconds = time.process_time() - started
            recorded[item.nodeid] = seconds, sorted(reached)
            if self._failed:
                break
        report.write_text(json.dumps(self._failed or recorded))

    def _judge(self, tests: Sequence[_Test], folder: Path) -> None:
        reports = [folder / str(number) for number in range(len(self._mutants))]
        work = []
        for mutant, report in zip(self._mutants, reports, strict=True):
            items = [test.item for test in tests if mutant.place in test.reached]
            work.append(partial(self._judge_one, mutant, items, report))
        for number, seconds in _in_processes(work, self._jobs):
            report = reports[number]
            killer = report.read_text() if report.exists() else "the end of the process"
            self._tell(number, killer, seconds)

    def _judge_one(self, mutant: Mutant, items: Sequence[pytest.Item], report: Path) -> None:
        replace_code(mutant.module, mutant.function, mutant.tree())
        for item, following in _pairs(items):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                break
        report.write_text(self._failed.partition("\n")[0])


def _pairs(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Yield each test with the following one, for which it leaves common fixtures."""
    return zip(items, [*items[1:], None], strict=True)


# Code


def _with_probes(module: str) -> ast.Module:
    """Return a module whose functions note that they are reached."""
    tree = parse(module)
    for name, function in functions(tree):
        assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        probe = ast.parse(f"_reached({f'{module}:{name}'!r})").body
        has_docstring = ast.get_docstring(function) is not None
        function.body[has_docstring:has_docstring] = probe
    return ast.fix_missing_locations(tree)


def replace_code(module: str, name: str, tree: ast.Module) -> None:
    """Give a function of an imported module the code that it has in a tree."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    function = _unwrapped(found)
    codes = [
        code
        for code in _codes(compile(tree, str(path_of(module)), "exec"))
        if code.co_qualname == name and code.co_firstlineno == function.__code__.co_firstlineno
    ]
    if len(codes) != 1:
        raise MutantError(f"{module} has {len(codes)} functions called {name}")
    function.__code__ = codes[0]


def _unwrapped(found: Any) -> FunctionType:
    while not isinstance(found, FunctionType) or hasattr(found, "__wrapped__"):
        for name in ("fget", "func", "__func__", "__wrapped__"):
            if hasattr(found, name):
                found = getattr(found, name)
                break
        else:
            raise MutantError(f"{found!r} is not a function")
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


# Processes


def _in_processes(work: Sequence[Callable[[], None]], jobs: int) -> Iterator[tuple[int, float]]:
    """Do each piece of work in a process; yield its number and its seconds when it has ended."""
    running: dict[int, tuple[int, float]] = {}

    def next_ended() -> tuple[int, float]:
        pid, _ = os.wait()
        number, started = running.pop(pid)
        return number, time.monotonic() - started

    try:
        for number, each in enumerate(work):
            if len(running) == jobs:
                yield next_ended()
            pid = os.fork()
            if pid == 0:
                _do(each)
            running[pid] = number, time.monotonic()
        while running:
            yield next_ended()
    finally:
        for pid in running:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


def _do(work: Callable[[], None]) -> None:
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        work()
    except BaseException as error:
        sys.stderr.write(f"{error!r}\n")
    finally:
        os._exit(0)
