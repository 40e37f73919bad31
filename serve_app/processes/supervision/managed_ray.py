"""Ray under supervision: its head, and the serve config that is deployed on it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil

from serve_app.errors import DeployError, InstanceError
from serve_app.processes.instance import Instance
from serve_app.processes.supervision.managed_process import logger
from serve_app.ray_dashboard import RayDashboard
from serve_app.rollout.deploy import deploy, failures, is_building, is_deploying, staged_startup
from serve_app.rollout.releases import Releases

POLL_S = 0.25
DEPLOY_POLL_S = 0.3
REFUSED_PAUSE_S, MAX_REFUSED_PAUSE_S = 5.0, 60.0
FIRST_STAGE_S = 20.0  # an application without room deploys indefinitely
REMOVAL_S = 60.0
BUILD_S = 300.0  # a build takes 2 s on an idle core
HANGS_S = 10.0  # time that a vital process may be stopped, as by SIGSTOP
KEPT_SESSIONS = 3
# Ray ends when one of these ends, but takes seconds to notice.
VITAL = ("gcs_server", "raylet")
ENDED = (psutil.STATUS_DEAD, psutil.STATUS_ZOMBIE)

T = TypeVar("T")


class RayDiedError(RuntimeError):
    """A vital process of Ray has died, or hangs."""


class ManagedRay:
    """Ray on this machine as a managed process.

    Args:
        find_instance: returns the instance to start: its ports depend on the config.
    """

    def __init__(
        self,
        find_instance: Callable[[], Instance],
        releases: Releases,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find_instance = find_instance
        self._instance = find_instance()
        self._releases = releases
        self._sleep = sleep
        self._clock = clock
        self._vital: dict[str, psutil.Process] = {}
        self._socket: Path | None = None
        self._stopped_at: dict[str, float] = {}

    def start_or_adopt(self) -> float:
        instance = self._instance = self._find_instance()
        head = instance.head()
        try:
            if head:
                adopted = head
                instance.wait_until_started(lambda: 1 if _status(adopted) in ENDED else None)
            else:
                instance.stop_ray(timeout_s=0)  # a front that outlives Ray answers 500
                remove_old_sessions(instance.ray_dir)
                instance.start()
                head = instance.head()
            return self._watch(head)
        except (psutil.Error, KeyError) as error:
            raise InstanceError("Ray ended while it started.") from error

    def _watch(self, head: psutil.Process | None) -> float:
        if not head:
            raise psutil.NoSuchProcess(0)
        # The process id of the head ends the name of its session.
        session = next(self._instance.ray_dir.glob(f"session_*_{head.pid}"), None)
        self._socket = session / "sockets" / "raylet" if session else None
        children = {child.name(): child for child in head.children()}
        # The head ends soon after any other, which is then the cause.
        self._vital = {name: children[name] for name in VITAL} | {"its head": head}
        self._stopped_at.clear()
        return head.create_time()

    def wait(self) -> str:
        try:
            self._deploy_wanted()
            self._deploy_failed_again()
            while True:
                self._pause(POLL_S)
        except RayDiedError as death:
            self._instance.stop_ray(timeout_s=0)  # the other processes would follow within seconds
            return str(death)

    def stop(self) -> None:
        self._instance.stop_ray()

    def _deploy_wanted(self) -> None:
        """Deploy the wanted config, unless Ray has all of it or other applications.

        A config that is refused is sent again after a pause, in which another one may be deployed.

        Raises:
            RayDiedError: Ray has died meanwhile.
        """
        while (config := self._releases.wanted()) and self._lacks(config):
            try:
                with self._releases.deploy_lock():
                    self._deploy_in_stages(config)
                return
            except DeployError as error:
                logger.error("%s", error)
                self._pause(REFUSED_PAUSE_S)

    def _deploy_failed_again(self) -> None:
        """Deploy applications again that failed to start, until all of the wanted config runs.

        Serve gives up an application after one failure of its builder or a few of its replica's
        constructor, and then ignores a config that it knows, until the application is gone.

        Raises:
            RayDiedError: Ray has died meanwhile.
        """
        pause_s = REFUSED_PAUSE_S
        while True:
            self._pause(pause_s)
            failed = failures(self._ask(RayDashboard.applications))
            if not failed and not self._ask(is_deploying):
                return
            if failed:
                pause_s = min(2 * pause_s, MAX_REFUSED_PAUSE_S)
                try:
                    with self._releases.rollout_lock(timeout_s=0), self._releases.deploy_lock():
                        self._replace_failed()
                except DeployError as error:  # of another deploy, too, which restores a release
                    logger.error("%s", error)

    def _replace_failed(self) -> None:
        config, found = self._releases.wanted(), self._ask(RayDashboard.applications)
        failed = failures(found)
        if config and failed and found.keys() <= _names(config):
            logger.error("Deploying again what failed: %s", failed)
            others = [each for each in config["applications"] if each["name"] not in failed]
            self._send({**config, "applications": others})
            self._wait_while(
                lambda ray: failed.keys() & RayDashboard.applications(ray).keys(), REMOVAL_S
            )
            self._send(config)

    def _lacks(self, config: dict[str, Any]) -> bool:
        """Return whether applications of the config are missing, and there are no others."""
        deployed = self._ask(RayDashboard.applications)
        return deployed.keys() < _names(config)

    def _deploy_in_stages(self, config: dict[str, Any]) -> None:
        """Deploy the decisions, and the whole config as soon as they run.

        They have little time: without its store, the inference would delay everything else. But
        where a busy machine still builds it, Serve would begin again with the next config.
        """
        *beginning, whole = staged_startup(config)
        for stage in beginning:
            self._send(stage)
            self._wait_while(is_building, BUILD_S)
            self._wait_while(is_deploying, FIRST_STAGE_S)
        self._send(whole)

    def _send(self, config: dict[str, Any]) -> None:
        self._ask(lambda dashboard: deploy(dashboard, config))

    def _wait_while(self, is_busy: Callable[[RayDashboard], object], limit_s: float) -> None:
        """Return as soon as the cluster is not busy, or when that takes too long."""
        for _ in range(round(limit_s / DEPLOY_POLL_S)):
            if not self._ask(is_busy):
                return
            self._sleep(DEPLOY_POLL_S)

    def _ask(self, call: Callable[[RayDashboard], T]) -> T:
        """Repeat a call of the dashboard until it is answered.

        Raises:
            RayDiedError: Ray has died instead.
        """
        while True:
            self._check_alive()
            try:
                return call(self._instance.dashboard)
            except httpx.HTTPError as error:
                logger.warning("Ray does not answer yet: %s", error)
                self._sleep(DEPLOY_POLL_S)

    def _pause(self, seconds: float) -> None:
        for _ in range(round(seconds / POLL_S)):
            self._check_alive()
            self._sleep(POLL_S)

    def _check_alive(self) -> None:
        if self._socket and not self._socket.exists():
            raise RayDiedError(f"Ray can start no process: {self._socket} is gone.")
        statuses = {name: _status(process) for name, process in self._vital.items()}
        # One of them is soon followed by the others: which was the first is not known any more.
        if dead := [name for name, status in statuses.items() if status in ENDED]:
            raise RayDiedError(f"Ray has ended: {' and '.join(dead)} died.")
        for name, status in statuses.items():
            if status != psutil.STATUS_STOPPED:
                self._stopped_at.pop(name, None)
            elif self._clock() - self._stopped_at.setdefault(name, self._clock()) > HANGS_S:
                raise RayDiedError(f"Ray hangs: {name} was stopped for {HANGS_S:.0f} s.")


def remove_old_sessions(ray_dir: Path) -> None:
    """Remove all but the newest few of the folders in which each start of Ray leaves its logs."""
    sessions = sorted(ray_dir.glob("session_2*"))  # the name begins with the time
    for folder in sessions[:-KEPT_SESSIONS]:
        shutil.rmtree(folder, ignore_errors=True)


def _names(config: dict[str, Any]) -> set[str]:
    return {each["name"] for each in config["applications"]}


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status() if process.is_running() else psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return str(psutil.STATUS_DEAD)
