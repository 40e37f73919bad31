"""The current folder: its ``serve_config.yaml`` and ``.env``, which ``greenwave init`` writes."""

from __future__ import annotations

import argparse
import json
import os
import re
import textwrap
from difflib import get_close_matches
from pathlib import Path
from typing import get_args

import yaml
from dotenv import dotenv_values
from pydantic.fields import FieldInfo

from deployments.store import SQLITE_PREFIX
from serve_app.cli.terminal import notes
from serve_app.errors import ROOT, CommandError
from serve_app.files import anchored
from serve_app.settings import Settings

CONFIG = Path("serve_config.yaml")
ENV_FILE = Path(".env")
SIMILAR = 0.8

_HEAD = """\
# Settings of Greenwave: `greenwave` reads this file in the folder in which it is called.
# A variable of the environment comes before a line here. `greenwave up` applies a change.
"""


def default_config() -> Path:
    """Return the serve config of the current folder, or else the one that is shipped."""
    return CONFIG if CONFIG.is_file() else ROOT / CONFIG


def apply_environment() -> None:
    """Read ``.env``, and make the paths in the settings absolute, for processes elsewhere.

    Raises:
        CommandError: the file cannot be read.
    """
    _apply_env_file()
    for name, field in Settings.model_fields.items():
        value = os.environ.get(name.upper())
        if value and Path in (field.annotation, *get_args(field.annotation)):
            os.environ[name.upper()] = anchored(value, Path())
    url = os.environ.get("STORE_URL", "")
    if url.startswith(SQLITE_PREFIX) and len(url) > len(SQLITE_PREFIX):
        path = Path(url.removeprefix(SQLITE_PREFIX))
        os.environ["STORE_URL"] = f"{SQLITE_PREFIX}{path.absolute()}"


def _apply_env_file() -> None:
    """Add the settings in ``.env`` to the environment, and warn of names that may be misspelt.

    Names that are no settings are left out: the file may be that of another program.
    """
    if not ENV_FILE.is_file():
        return
    try:
        lines = dotenv_values(ENV_FILE, interpolate=False)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"Cannot read {ENV_FILE}: {error}.") from error
    known = {name.upper() for name in Settings.model_fields}
    for name, value in lines.items():
        if name in known:
            os.environ.setdefault(name, value or "")
        elif similar := get_close_matches(name, known, 1, SIMILAR):
            notes.print(
                f"{ENV_FILE}: {name} is not a setting, and is ignored. Is it {similar[0]}?",
                style="yellow",
            )


def add_init(init: argparse.ArgumentParser) -> None:
    network = "network file of a city: write only a config that serves it, beside it"
    init.add_argument("--network", type=Path, help=network)
    policy = "policy of the city (default: MAPPO_AGENT_PATH, or the shipped one)"
    init.add_argument("--policy", type=Path, help=policy)
    init.set_defaults(run=_init)


def _init(options: argparse.Namespace) -> None:
    config = (ROOT / CONFIG).read_text(encoding="utf-8")
    texts = {CONFIG: config, ENV_FILE: env_example()}
    if options.network:
        path = options.network.with_suffix(".yaml")
        texts = {path: _of_city(config, options.network, options.policy)}
        if options.policy:
            _check_policy(texts[path])
    elif options.policy:
        raise CommandError("--policy belongs to a city: add its --network.")
    for path, text in texts.items():
        if path.exists():
            if options.network and path.read_text(encoding="utf-8") != text:
                raise CommandError(f"{path} is there already with other content: remove it first.")
            notes.print(f"{path} is there already, and stays as it is; remove it to write it anew.")
            continue
        mode = 0o600 if path == ENV_FILE else 0o644  # for secrets
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
            file.write(text)
        notes.print(f"Wrote {path}")


def _check_policy(config: str) -> None:
    from serve_app.rollout.model_files import find_file_faults  # imports the services

    if faults := list(find_file_faults(yaml.safe_load(config))):
        raise CommandError("\n".join(faults))


def _of_city(config: str, network: Path, policy: Path | None) -> str:
    """Return the shipped config with a city's network, which it names once, and its policy.

    Its inference application has another name: hidden states of another network may be kept.
    """
    files = {"network: &network": network} | ({"agent_path:": policy} if policy else {})
    # the error names what is missing
    found = [f"{key} {json.dumps(str(path.resolve(strict=True)))}" for key, path in files.items()]
    app = f"inference-{re.sub('[^A-Za-z0-9]', '-', network.stem)}"
    named, again = ", ".join(found), "network: *network"
    asking = f"{again}, inference_app: {app}"
    for service, args in (("inference", named), ("gateway", asking), ("console", again)):
        before, builder, after = config.partition(f"import_path: serve_app.{service}:build")
        config = before + builder + after.replace("args: {}", f"args: {{{args}}}", 1)
    return config.replace("- name: inference\n", f"- name: {app}\n")


def env_example() -> str:
    """Return a file with every setting, each in a comment."""
    settings = Settings.model_fields.items()
    return _HEAD + "".join(f"\n{_comment(field)}\n# {name.upper()}=\n" for name, field in settings)


def _comment(field: FieldInfo) -> str:
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    default = extra.get("default", field.get_default(call_default_factory=True))
    lines = textwrap.wrap(f"{field.description} Default: {default}.", 98)
    return textwrap.indent("\n".join(lines), "# ")
