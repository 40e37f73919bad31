"""Worker processes for simulations: SUMO's library keeps one simulation per process."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import connection
from threading import Thread


def make_pool(workers: int) -> ProcessPoolExecutor:
    """Fresh processes, which inherit nothing of a simulation and end when their parent does."""
    return ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent
    )


def _end_with_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without its own traceback
    Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)  # a killed parent cannot tell its workers, and they would wait indefinitely
