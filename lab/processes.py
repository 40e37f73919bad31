"""Processes of simulations: workers, as SUMO's library keeps one simulation per process, and SUMO.

None outlives the process that started it, however that ends. Their folders are removed at the
latest when the next one is made.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import multiprocessing
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TypeVar, cast

Result = TypeVar("Result")

_FOLDERS, _LOCK = "greenwave-run-", "lock"
_LOCKED_AFTER_S = 10.0  # that a process may need to lock its new folder
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1  # of Linux: the signal that a process gets when its parent ends


@contextlib.contextmanager
def make_pool(workers: int) -> Iterator[Executor]:
    """Fresh processes, which inherit nothing of a simulation and end when their parent does.

    At the end, what has not begun is left out.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _begin_worker, (os.getpid(),))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def in_fresh_process(function: Callable[[], Result]) -> Result:
    """Return what a function returns in a copy of this process, which must not have run SUMO.

    SUMO's library keeps something of each simulation: on some nets, the same seed gives other
    figures after another run.

    Raises:
        BrokenExecutor: the copy has ended without a result.
        Exception: what the function raises.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_result, args=(function, sender, os.getpid()))
    process.start()
    sender.close()
    try:
        result, error = receiver.recv()
    except EOFError:
        raise BrokenExecutor("A simulation has ended without a result.") from None
    finally:
        process.join()
        receiver.close()
    if error is not None:
        raise error
    return cast("Result", result)


def _send_result(function: Callable[[], object], sender: Connection, parent: int) -> None:
    _begin_worker(parent)
    try:
        sender.send((function(), None))
    except Exception as error:
        sender.send((None, error))


def run_child(
    command: Sequence[str], timeout_s: float | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program that ends with this process, and return its output.

    Raises:
        subprocess.TimeoutExpired: it takes longer than the time.
    """
    end = partial(_end_with, os.getpid())
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_s, env=env, preexec_fn=end
    )


def _begin_worker(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without its own traceback
    _end_with(parent)


def _end_with(parent: int) -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended before
        os._exit(1)


class RunFolder(TemporaryDirectory[str]):
    """A temporary folder; first removes those that killed processes have left.

    The kernel unlocks a folder when its process ends, however it ends.
    """

    def __init__(self) -> None:
        for lock in Path(gettempdir()).glob(f"{_FOLDERS}*/{_LOCK}"):
            with contextlib.suppress(OSError), lock.open() as file:  # of others, or being removed
                if lock.stat().st_mtime < time.time() - _LOCKED_AFTER_S:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(lock.parent)
        super().__init__(prefix=_FOLDERS)
        self._lock = Path(self.name, _LOCK).open("w")  # noqa: SIM115 - until the cleanup
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def cleanup(self) -> None:
        super().cleanup()
        self._lock.close()
