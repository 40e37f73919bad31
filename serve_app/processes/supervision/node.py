"""Keeps Ray: starts its head, deploys the config, and does both again when Ray has died."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import httpx
import psutil

from serve_app.processes.instance import Instance, InstanceError
from serve_app.processes.supervision.ray_sessions import Sessions
from serve_app.processes.supervision.restarts import CannotRunError, logger
from serve_app.rollout.deploy import DeployError, deploy, is_building, is_deploying, statuses
from serve_app.rollout.releases import Releases
from serve_app.rollout.staged_startup import growing

LOOK_S = 0.1
DEPLOY_PAUSE_S = 0.3
REFUSED_PAUSE_S = 5.0
STAGE_S = 60.0  # what cannot be placed deploys for ever, and whoever wants to deploy another waits
# Ray does not outlive these, but takes seconds to see that they have gone.
VITAL = ("gcs_server", "raylet")

T = TypeVar("T")


class Node:
    """Ray on this machine, and what is deployed on it.

    Args:
        find: returns the instance as it shall be started: its ports depend on the config.
    """

    def __init__(
        self,
        find: Callable[[], Instance],
        releases: Releases,
        sessions: Sessions,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._find = find
        self._instance = find()
        self._releases = releases
        self._sessions = sessions
        self._sleep = sleep
        self._vital: dict[str, psutil.Process] = {}

    def begin(self) -> float:
        instance = self._instance = self._find()
        head = instance.head()
        try:
            if head:
                living = head
                instance.wait_until_started(lambda: None if _lives(living) else 1)
            else:
                instance.stop_ray(patience_s=0)  # a front that outlives Ray answers 500
                self._sessions.tidy()
                instance.start()
                head = instance.head()
            return self._watch(head)
        except InstanceError as error:
            raise CannotRunError(str(error)) from error
        except (psutil.Error, KeyError) as error:
            raise CannotRunError("Ray has gone while it started.") from error

    def _watch(self, head: psutil.Process | None) -> float:
        if not head:
            raise psutil.NoSuchProcess(0)
        self._sessions.add(head.pid)
        children = {child.name(): child for child in head.children()}
        self._vital = {"its head": head} | {name: children[name] for name in VITAL}
        return head.create_time()

    def wait(self) -> str:
        self._deploy()
        while not (gone := self._gone()):
            self._sleep(LOOK_S)
        self._instance.stop_ray(patience_s=0)  # the others would follow within seconds
        return f"Ray has gone: {gone} has died."

    def stop(self) -> None:
        self._instance.stop_ray()

    def _deploy(self) -> None:
        """Put the instance's config on a Ray that has none, or the beginning of it."""
        while (config := self._releases.wanted()) and self._ask(partial(_lacks, config)):
            try:
                with self._releases.turn():
                    self._send(config)
                return
            except DeployError as error:
                logger.error("%s", error)
                self._sleep(REFUSED_PAUSE_S)  # somebody may deploy another meanwhile

    def _send(self, config: dict[str, Any]) -> None:
        *stages, whole = growing(config)
        busy = is_building  # the first application need not run before the others begin
        for stage in stages:
            self._ask(partial(_put, stage))
            if not self._settles(busy):
                logger.warning("Not all runs after %.0f s; the rest comes at once.", STAGE_S)
                break
            busy = is_deploying
        self._ask(partial(_put, whole))

    def _settles(self, busy: Callable[[str], bool]) -> bool:
        """Return True as soon as nothing is busy, and False when that takes too long."""
        for _ in range(round(STAGE_S / DEPLOY_PAUSE_S)):
            if not self._ask(busy):
                return True
            self._sleep(DEPLOY_PAUSE_S)
        return False

    def _ask(self, call: Callable[[str], T]) -> T | None:
        """Repeat a call of the cluster until it is answered; None when Ray has gone instead."""
        while not self._gone():
            try:
                return call(self._instance.dashboard_url)
            except httpx.HTTPError as error:
                logger.warning("Ray does not answer yet: %s", error)
                self._sleep(DEPLOY_PAUSE_S)
        return None

    def _gone(self) -> str | None:
        """Name the first vital process that has died."""
        return next((name for name, each in self._vital.items() if not _lives(each)), None)


def _lacks(config: dict[str, Any], dashboard_url: str) -> bool:
    """Return whether applications of the config are missing where there are no others."""
    return statuses(dashboard_url).keys() < {each["name"] for each in config["applications"]}


def _put(config: dict[str, Any], dashboard_url: str) -> None:
    deploy(dashboard_url, config)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
