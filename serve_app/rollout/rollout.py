"""Deploys a config on a running cluster so that a bad one changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import httpx

from serve_app.rollout.canary import undone_by
from serve_app.rollout.capacity import limit, misfit, nodes_of
from serve_app.rollout.code_version import stamp
from serve_app.rollout.deploy import (
    DRAINING,
    RUNNING,
    DeployError,
    deploy,
    serves,
    wait_until_running,
)
from serve_app.rollout.releases import Releases
from serve_app.rollout.rolling_update import Config, steps

Report = Callable[[str, str, float], None]

_INTERRUPTED = "Interrupted: the release before is put back. Another Ctrl-C ends that, too."
_MIXTURE = (
    "Interrupted: some applications may be of one release and some of another."
    " Run `make deploy` or `make rollback`."
)


@dataclass
class Rollout:
    """The way of every config onto a cluster.

    Attributes:
        front: Serve's port, which cannot change while Serve runs; None for the config's own.
        timeout_s: longest wait until an application runs.
        report: called with name, status and seconds at each change of status.
        say: called with a sentence when the plan has changed.
    """

    dashboard_url: str
    front: int | None
    releases: Releases
    timeout_s: float
    report: Report = field(default=lambda name, status, seconds: None)
    say: Callable[[str], None] = field(default=lambda sentence: None)
    _sent: Config | None = None

    def deploy(self, config: Config) -> bool:
        """Deploy a config with the code that is installed, and make it the current release.

        What is the current release already is sent again: the cluster may serve something else.

        Returns:
            Whether it is another release than before.

        Raises:
            DeployError: it cannot be written down, the cluster has no room for it, or somebody
                else deploys, and nothing has been changed; or it does not run, and the release
                before it has been put back.
            KeyboardInterrupt: it was interrupted; says what serves now.
        """
        with self.releases.rollout():
            prepared = self._prepare(config)
            self._refuse_what_does_not_fit(prepared)
            current = self.releases.current()
            is_new = prepared != current
            for sentence in undone_by(prepared, current) if current else ():
                self.say(sentence)
            self._try(prepared)
            return is_new

    def adjust(self, change: Callable[[Config], Config]) -> Config:
        """Deploy what a function makes of the current release, with the code that this has.

        Returns:
            The new release.

        Raises:
            DeployError: as of ``deploy``, or nothing is deployed yet.
        """
        with self.releases.rollout():
            current = self.releases.current()
            if current is None:
                raise DeployError("Nothing is deployed yet.")
            changed = change(current)
            self._try(changed)
            return changed

    def announce(self, config: Config) -> None:
        """Have the node deploy a config as soon as it has started Ray."""
        self.releases.try_out(self._prepare(config))

    def finish_start(self, config: Config) -> None:
        """Do the same with a config that was announced."""
        with self.releases.rollout():
            self._try(self._prepare(config), sent=True)

    def roll_back(self) -> None:
        """Deploy the release before the current one, and forget the current one.

        Raises:
            DeployError: there is none, there is no room for it or it does not run any more, or
                somebody else deploys.
        """
        with self.releases.rollout():
            previous = self.releases.previous()
            if previous is None:
                raise DeployError("There is no release before the current one.")
            prepared = self._prepare(previous)
            self._refuse_what_does_not_fit(prepared)
            self._try(prepared, undo=True)

    def _prepare(self, config: Config) -> Config:
        stamped = stamp(config)
        if self.front is not None:
            stamped["http_options"] = (stamped.get("http_options") or {}) | {"port": self.front}
        return stamped

    def _refuse_what_does_not_fit(self, config: Config) -> None:
        try:
            nodes = nodes_of(self.dashboard_url)
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            reason = "refuses Ray's token" if status in (401, 403) else f"answers {status}"
            raise DeployError(f"The cluster at {self.dashboard_url} {reason}.") from error
        except httpx.HTTPError as error:
            raise DeployError(f"The cluster does not answer: {error}") from error
        if sentence := misfit(config, nodes):
            raise DeployError(f"{sentence} Nothing has been changed.")
        if sentence := limit(config, nodes):
            self.say(sentence)

    def _try(self, config: Config, sent: bool = False, undo: bool = False) -> None:
        releases = self.releases
        candidate = releases.trial if sent else releases.stage(config)
        try:
            if sent:
                self._wait(_names(config))
            else:
                self._send(config)
            (releases.undo if undo else releases.add)(candidate)
        except (DeployError, OSError) as error:
            releases.end_trial()
            reason = str(error).rstrip(".")
            raise DeployError(f"{reason}. {self._put_back()}") from error
        except KeyboardInterrupt as interrupt:
            if sent:  # who has started Ray stops it again
                raise
            self.say(_INTERRUPTED)
            releases.end_trial()
            raise KeyboardInterrupt(f"Interrupted. {self._put_back()}") from interrupt

    def _send(self, config: Config) -> None:
        try:
            for changed, step in steps(self._sent or self.releases.current(), config):
                with self.releases.turn():
                    deploy(self.dashboard_url, step)
                self._sent = step
                if changed:
                    self._wait([changed], (RUNNING, DRAINING))
            self._wait(_names(config))
            if not serves(self.dashboard_url, config):
                raise DeployError("Ray was started again meanwhile, with another release.")
        except httpx.HTTPError as error:
            raise DeployError(f"The cluster does not answer: {error}") from error

    def _wait(self, names: list[str], enough: Collection[str] = (RUNNING,)) -> None:
        wait_until_running(self.dashboard_url, names, self.timeout_s, self.report, enough)

    def _put_back(self) -> str:
        """Serve keeps replicas of the old version, but would not replace one that died."""
        last = self.releases.current()
        if last is None:
            return "There is no release before it that could serve instead."
        try:
            self._send(last)
        except DeployError as error:
            return f"The release before it does not run either: {error}"
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(_MIXTURE) from interrupt
        return "The release before it serves on."


def _names(config: Config) -> list[str]:
    return [application["name"] for application in config["applications"]]
