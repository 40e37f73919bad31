"""``greenwave canary``: try a policy beside the one in service."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from serve_app.cli.deploy import add_timeout, console, print_doubts, rollout_of
from serve_app.cli.status import running
from serve_app.errors import CommandError
from serve_app.processes.installation import releases_of
from serve_app.processes.ports import add_port_base
from serve_app.rollout import canary
from serve_app.rollout.canary import UserConfig
from serve_app.rollout.canary_metrics import comparison, figures_of, pages_of

Config = dict[str, Any]
Change = Callable[[Config, str, argparse.Namespace], Config]

_HINT = "A deploy knows its config file only, where this belongs to the deployment Inference:"


def add_canary(canary: argparse.ArgumentParser) -> None:
    actions = canary.add_subparsers(required=True, metavar="ACTION")

    def action(
        name: str, help: str, run: Callable[[argparse.Namespace], None]
    ) -> argparse.ArgumentParser:
        added = actions.add_parser(name, help=help, description=help)
        add_port_base(added)
        added.add_argument("--app", help="inference application, where there are several")
        added.set_defaults(run=run)
        return added

    def change(name: str, help: str, make: Change) -> argparse.ArgumentParser:
        added = action(name, help, lambda options: _change(options, make))
        add_timeout(added)
        return added

    start = change("start", "try a policy on a share of the runs, or as a shadow", _started)
    start.add_argument("file", type=Path, help="policy, where every replica can read it")
    share = "of the runs, such as 10%% (default: 10%%, of a shadow 100%%)"
    start.add_argument("--share", type=read_share, help=share)
    shadow = "let it step beside the policy in service without answering"
    start.add_argument("--shadow", action="store_true", help=shadow)
    revision = "text that tells this trial from another one of the same policy"
    start.add_argument("--revision", type=_read_revision, help=revision)
    more = change("share", "give the candidate another share of the runs", _shared)
    more.add_argument("share", type=read_share, help="of the runs, such as 25%%")
    change("promote", "put the candidate in service, with its hidden states", _promoted)
    change("drop", "end the trial", _dropped)
    action("status", "compare the candidate with the policy in service", _status)


def read_share(text: str) -> float:
    """Read a share such as ``10%``.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    number = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", text)
    if number is None or float(number[1]) > 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share from 0% to 100%, such as 10%")
    return float(number[1]) / 100


def _read_revision(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,40}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 to 40 of A-Z a-z 0-9 . _ -")
    return text


def _started(config: Config, app: str, options: argparse.Namespace) -> Config:
    default = 1.0 if options.shadow else 0.1
    return canary.started(
        config,
        app,
        options.file,
        "shadow" if options.shadow else "canary",
        default if options.share is None else options.share,
        options.revision,
    )


def _shared(config: Config, app: str, options: argparse.Namespace) -> Config:
    return canary.shared(config, app, options.share)


def _promoted(config: Config, app: str, options: argparse.Namespace) -> Config:
    return canary.promoted(config, app)


def _dropped(config: Config, app: str, options: argparse.Namespace) -> Config:
    return canary.dropped(config, app)


def _change(options: argparse.Namespace, make: Change) -> None:
    instance = running(options)
    silently = replace(rollout_of(options, instance), report=lambda name, status, seconds: None)
    config = silently.adjust(
        lambda config: make(config, canary.inference_of(config, options.app), options)
    )
    user_config = canary.user_config_of(config, canary.inference_of(config, options.app))
    console.print("[bold green]Done.[/bold green]")
    console.print(f"{_sentence(user_config)}\n{_HINT}", markup=False)
    console.print(yaml.safe_dump({"user_config": user_config}, sort_keys=False), markup=False)
    print_doubts(instance, config)


def _sentence(user_config: UserConfig) -> str:
    served = user_config.get("agent_path") or "the policy of MAPPO_AGENT_PATH"
    candidate = user_config.get("candidate")
    if not candidate:
        return f"{served} answers every run."
    beside = "answers" if candidate["mode"] == "canary" else "is a shadow of it in"
    share = f"{candidate['share'] * 100:g}% of the runs"
    return f"{served} is in service, and {candidate['agent_path']} {beside} {share}."


def _status(options: argparse.Namespace) -> None:
    instance = running(options)
    config = releases_of(instance).current()
    if config is None:
        raise CommandError("Nothing is deployed.")
    app = canary.inference_of(config, options.app)
    user_config = canary.user_config_of(config, app)
    console.print(_sentence(user_config), markup=False)

    def report(trouble: str) -> None:
        console.print(trouble, style="yellow", markup=False)

    pages = pages_of(instance.ports.metrics, instance.ray_dir, report)
    console.print(comparison(user_config, figures_of(pages, app)))
