"""Rollouts: a config that does not run is replaced by the current release."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from serve_app.errors import DeployError
from serve_app.ray_dashboard import RayDashboard
from serve_app.rollout.canary import replaced_by
from serve_app.rollout.capacity import FORKED, UNSHARED, growth_limit, nodes_of, shortfall
from serve_app.rollout.code_version import stamp
from serve_app.rollout.deploy import (
    DRAINING,
    RUNNING,
    Config,
    Report,
    deploy,
    rolling_update,
    serves,
    wait_until_running,
)
from serve_app.rollout.releases import Releases

_INTERRUPTED = "Interrupted: restoring the previous release. Another Ctrl-C ends that, too."
_STAY = "Hidden states stay, for an application of the same name."
_MIXED = (
    "Interrupted: some applications may run the new release and some the previous one."
    " Run `greenwave deploy` or `greenwave rollback`."
)


@dataclass
class Rollout:
    """Deploys configs on one cluster, and restores the current release if one does not run.

    Attributes:
        front: Serve's port of an instance, which cannot change while it runs; None for a cluster.
        timeout_s: how long each application may take until it runs.
        report: called when more applications run than before.
        warn: called with a sentence about something that the operator may not expect.
        check: called while applications start; raises an error if waiting is in vain.
    """

    dashboard: RayDashboard
    front: int | None
    releases: Releases
    timeout_s: float
    report: Report = field(default=lambda names, waiting, seconds: None)
    warn: Callable[[str], None] = field(default=lambda sentence: None)
    check: Callable[[], None] = field(default=lambda: None)
    _sent: Config | None = None

    def deploy(self, config: Config) -> bool:
        """Deploy a config with the installed code, and make it the current release.

        The current release is sent again: the cluster may serve something else.

        Returns:
            Whether it is another release than before.

        Raises:
            DeployError: it cannot be stored, the cluster has no room for it, or another deploy is
                in progress, and nothing has been changed; or it does not run, and the previous
                release has been restored.
            KeyboardInterrupt: it was interrupted; the message says what serves now.
        """
        with self.releases.rollout_lock():
            prepared = self._prepare(config)
            self._check_cluster(prepared)
            self._warn_of_losses(prepared)
            current = self.releases.current()
            self._release(prepared, self.releases.add)
            return prepared != current

    def plan(self, config: Config) -> tuple[Config | None, Config]:
        """Return the current release, and what :meth:`deploy` would send.

        Raises:
            DeployError: the cluster has no room for it.
        """
        prepared = self._prepare(config)
        self._check_cluster(prepared)
        return self.releases.current(), prepared

    def adjust(self, change: Callable[[Config], Config]) -> Config:
        """Change the current release and deploy it, with the code that it has.

        Returns:
            The new release.

        Raises:
            DeployError: as of :meth:`deploy`, or nothing is deployed yet.
        """
        with self.releases.rollout_lock():
            current = self.releases.current()
            if current is None:
                raise DeployError("Nothing is deployed yet.")
            changed = change(current)
            self._release(changed, self.releases.add)
            return changed

    def roll_back(self) -> None:
        """Deploy the release before the current one, and forget the current one.

        Raises:
            DeployError: there is none, the cluster has no room for it, it does not run any more,
                or another deploy is in progress.
        """
        with self.releases.rollout_lock():
            previous = self.releases.previous()
            if previous is None:
                raise DeployError("There is no release before the current one.")
            prepared = self._prepare(previous)
            self._check_cluster(prepared)
            self._release(prepared, self.releases.undo)

    def prepare_start(self, config: Config) -> None:
        """Have the supervisor of Ray deploy a config as soon as it has started Ray."""
        prepared = self._prepare(config)
        self._warn_of_losses(prepared)
        self.releases.set_pending(prepared)

    def finish_start(self, config: Config) -> None:
        """Wait until the config of :meth:`prepare_start` runs, and make it the current release.

        Raises:
            DeployError: it does not run; the current release stays the one before.
        """
        with self.releases.rollout_lock():
            try:
                self._wait(_names(config))
                self.releases.add(self.releases.pending)
            except (DeployError, OSError):
                self.releases.discard_pending()
                raise

    def _warn_of_losses(self, config: Config) -> None:
        """Warn of what the commands of a canary have changed, and the config does not have."""
        current = self.releases.current()
        for sentence in replaced_by(config, current) if current else ():
            self.warn(sentence)

    def _prepare(self, config: Config) -> Config:
        stamped = stamp(config)
        if self.front is not None:
            stamped["http_options"] = (stamped.get("http_options") or {}) | {"port": self.front}
        return stamped

    def _check_cluster(self, config: Config) -> None:
        try:
            nodes, running = nodes_of(self.dashboard), self.dashboard.applications()
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            reason = "refuses Ray's token" if status in (401, 403) else f"answers {status}"
            raise DeployError(f"The cluster at {self.dashboard.url} {reason}.") from error
        except httpx.HTTPError as error:
            raise DeployError(f"The cluster does not answer: {error}") from error
        workers = UNSHARED if self.front is None else FORKED
        if sentence := shortfall(config, nodes, workers):
            raise DeployError(f"{sentence} Nothing has been changed.")
        if sentence := growth_limit(config, nodes, workers):
            self.warn(sentence)
        if removed := sorted(running.keys() - set(_names(config))):
            self.warn(f"A deploy ends what the config lacks: {', '.join(removed)}. {_STAY}")

    def _release(self, config: Config, keep: Callable[[Path], None]) -> None:
        """Deploy a config; once it runs, keep its file as a release."""
        staged = self.releases.stage(config)
        with self._restoring_release():
            self._send(config)
            keep(staged)

    @contextmanager
    def _restoring_release(self) -> Iterator[None]:
        """Restore the current release when the block fails, and on Ctrl-C."""
        try:
            yield
        except (DeployError, OSError) as error:
            self.releases.discard_pending()
            reason = str(error).rstrip(".")
            raise DeployError(f"{reason}. {self._restore()}") from error
        except KeyboardInterrupt as interrupt:
            self.warn(_INTERRUPTED)
            self.releases.discard_pending()
            raise KeyboardInterrupt(f"Interrupted. {self._restore()}") from interrupt

    def _send(self, config: Config) -> None:
        """Deploy a config as a rolling update of what was sent last, and wait until it runs."""
        try:
            for changed, step in rolling_update(self._sent or self.releases.current(), config):
                with self.releases.deploy_lock():
                    deploy(self.dashboard, step)
                self._sent = step
                if changed:
                    self._wait([changed], (RUNNING, DRAINING))
            self._wait(_names(config))
            if not serves(self.dashboard, config):
                raise DeployError("Ray was restarted meanwhile, with another release.")
        except httpx.HTTPError as error:
            raise DeployError(f"The cluster does not answer: {error}") from error

    def _wait(self, names: list[str], accepted: Collection[str] = (RUNNING,)) -> None:
        wait_until_running(self.dashboard, names, self.timeout_s, self.report, accepted, self.check)

    def _restore(self) -> str:
        """Send the current release again, and say in one sentence what serves now.

        Replicas of the old version still serve, but Serve would not replace one that dies.
        """
        current = self.releases.current()
        if current is None:
            return "There is no previous release to restore."
        try:
            self._send(current)
        except DeployError as error:
            return f"The previous release does not run either: {error}"
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(_MIXED) from interrupt
        return "The previous release still serves."


def _names(config: Config) -> list[str]:
    return [application["name"] for application in config["applications"]]
