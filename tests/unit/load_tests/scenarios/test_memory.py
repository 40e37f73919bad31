"""Memory of processes: samples, names, pictures, and growth after the warm-up."""

from __future__ import annotations

import csv
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import psutil
import pytest
from matplotlib.lines import Line2D

from load_tests.harness.command_line import save_figure
from load_tests.scenarios.memory import (
    MemoryWatch,
    draw,
    fitted_growth,
    judge_growth,
    name_of,
    write_memory,
)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["ray::ServeReplica:flow:Flow"], "ray::ServeReplica:flow:Flow"),
        (["/usr/sbin/haproxy", "-f", "edge.cfg"], "haproxy"),
        (
            ["/opt/python3.11", "-m", "serve_app.processes.supervision", "edge"],
            "serve_app.processes.supervision",
        ),
        (["python", "-u", "/ray/dashboard/agent.py", "--port=1"], "agent.py"),
        (["python"], "python"),
        ([""], "unknown"),
        ([], "unknown"),
    ],
)
def test_a_process_is_named_by_what_it_runs(command, name):
    assert name_of(command) == name


def heights(line: Line2D) -> list[float]:
    return [float(each) for each in np.asarray(line.get_ydata())]


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_each_process_is_sampled_while_it_lives():
    with sleeper() as child:
        processes = [psutil.Process(), psutil.Process(child.pid)]
        watch = MemoryWatch(lambda: processes, 1)
        watch.sample()
        child.kill()
        child.wait()
        watch.sample()
    own, of_child = sorted(watch.points.values(), key=len, reverse=True)
    assert (len(own), len(of_child)) == (2, 1)
    assert min(size for _, size in own + of_child) > 100_000
    assert own[0][0] < own[1][0]


def test_a_watch_samples_until_it_is_left():
    looked = threading.Semaphore(0)

    def processes() -> list[psutil.Process]:
        looked.release()
        return []

    with MemoryWatch(processes, 0.001):
        assert all(looked.acquire(timeout=20) for _ in range(3))
    while looked.acquire(blocking=False):
        pass
    assert not looked.acquire(timeout=0.02)


def test_every_sample_is_written(tmp_path: Path):
    write_memory({"a (1)": [(0.0, 1_500_000), (5.04, 2_000_000)]}, tmp_path / "memory.csv")
    with (tmp_path / "memory.csv").open() as file:
        assert list(csv.reader(file)) == [
            ["process", "seconds", "uss_mb"],
            ["a (1)", "0.0", "1.500"],
            ["a (1)", "5.0", "2.000"],
        ]


def test_the_picture_adds_up_all_and_names_those_that_have_changed_most(tmp_path: Path):
    points = {
        f"p ({n})": [(60.0 * at + n / 8, 1_000_000 * n * at) for at in range(5)] for n in range(8)
    }
    points["shrinks (8)"] = [(60.0 * at + 1, 1_000_000 * 8 * (4 - at)) for at in range(5)]
    points["late (9)"] = [(241.0, 9_000_000)]
    figure = draw(points)
    whole, each = figure.axes
    assert heights(whole.lines[0]) == [32, 28 + 24, 56 + 16, 84 + 8, 112 + 9]
    legend = each.get_legend()
    assert legend is not None
    named = [text.get_text() for text in legend.get_texts()]
    assert named == [*(f"p ({n})" for n in range(3, 8)), "shrinks (8)"]
    assert [heights(line)[-1] for line in each.lines] == [*range(0, 16, 2), -16, 0]
    for name in ("one.png", "two.png"):
        save_figure(draw(points), tmp_path / name)
    one, two = ((tmp_path / name).read_bytes() for name in ("one.png", "two.png"))
    assert one == two
    assert b"Matplotlib" not in one


def test_an_empty_watch_makes_an_empty_picture():
    assert [len(axes.lines) for axes in draw({}).axes] == [1, 0]


MB = 1_000_000
MINUTES = 30


def soak(size, begin: float = 0, end: float = MINUTES) -> list[tuple[float, int]]:
    """Sample a size in MB, a function of the minute, every five seconds."""
    times = range(round(begin * 60), round(end * 60) + 1, 5)
    return [(float(at), round(size(at / 60) * MB)) for at in times]


def judged(**points: list[tuple[float, int]]) -> dict[str, bool]:
    return {each.what: each.is_met for each in judge_growth(points, 3)}


def test_the_line_rises_by_what_was_added():
    assert fitted_growth(soak(lambda minute: 100 + minute)) == pytest.approx(30 * MB)


def test_a_leak_is_found_beneath_noise_and_noise_is_no_leak():
    chance = random.Random(1)

    def leak(minute):
        return 100 + 0.4 * minute + chance.uniform(-2, 2)

    def noise(minute):
        return 100 + chance.uniform(-4, 4)

    assert judged(leak=soak(leak), noise=soak(noise)) == {"leak": False, "noise": True}


def test_a_warm_up_is_no_growth():
    assert judged(warm=soak(lambda minute: 50 + 10 * min(minute, 14))) == {"warm": True}


def test_who_came_or_went_in_the_second_half_is_not_judged():
    def grow(minute):
        return 100 * minute

    came, went = soak(grow, begin=20), soak(grow, end=25)
    assert judged(came=came, went=went, stayed=soak(lambda _: 1)) == {"stayed": True}


@pytest.mark.parametrize("points", [{}, {"seldom": [(0.0, 1), (900.0, 1), (1800.0, 1)]}])
def test_a_soak_that_shows_nothing_is_missed(points):
    assert judged(**points) == {"every process": False}
