"""A user's SUMO configuration: what it names, and which of its options a simulation keeps.

``configuration.toml`` judges every option of SUMO. Kept options become arguments of each
simulation, so SUMO itself never reads the configuration.
"""

from __future__ import annotations

import os
import re
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lab.net.program import seconds_of
from lab.processes import run_child
from lab.sim.scenario import Configured, InvalidScenarioError
from models.networks.file import InvalidNetworkError

TEMPLATE_TIMEOUT_S = 60.0
_TABLE = Path(__file__).with_suffix(".toml")
TRUE = {"1", "yes", "true", "on", "x", "t"}


class Option(NamedTuple):
    """An option of the installed SUMO, as its template has it."""

    name: str
    section: str
    kind: str
    default: str

    def is_default(self, value: str) -> bool:
        if self.kind == "BOOL":
            return (value.lower() in TRUE) == (self.default in TRUE)
        return value == self.default


class SumoFiles(NamedTuple):
    """What a ``.sumocfg`` names; paths are those of the machine."""

    net: Path
    routes: tuple[Path, ...]
    additional: tuple[Path, ...]
    begin_s: int
    end_s: int
    configured: Configured


def read_sumocfg(
    path: str | os.PathLike[str], begin_s: int | None = None, end_s: int | None = None
) -> SumoFiles:
    """Read net, routes, times and options of a configuration.

    Args:
        begin_s, end_s: replace its own.

    Raises:
        InvalidNetworkError: it cannot be read, or has no net or no traffic.
        InvalidScenarioError: it has no end, and none is given; or it has an option that is refused.
    """
    path = Path(path)
    options = read_options(path)
    values, folder = {option.name: value for option, value in options.items()}, _folder(path)
    if "net-file" not in values:
        raise InvalidNetworkError(f"{path} does not say its net-file.")
    if "route-files" not in values and "additional-files" not in values:
        raise InvalidNetworkError(f"{path} has neither route-files nor additional-files.")
    if begin_s is None:
        begin_s = _whole_seconds(path, "begin", values.get("begin", "0"))
    if end_s is None:  # SUMO's -1 means that there is no end
        end_s = _whole_seconds(path, "end", values.get("end", "-1"))
    if end_s < 0:
        raise InvalidScenarioError(f"{path} does not say its end; add --end.")
    return SumoFiles(
        folder / values["net-file"],
        _paths(folder, values.get("route-files", "")),
        _paths(folder, values.get("additional-files", "")),
        begin_s,
        end_s,
        _judged(path, options),
    )


def read_options(path: Path) -> dict[Option, str]:
    """Return the options of a configuration with their values, as SUMO reads them.

    Raises:
        InvalidNetworkError: it cannot be read, or has an option that SUMO does not know.
    """
    try:
        root = ET.parse(path).getroot()
    except OSError as error:
        raise InvalidNetworkError(f"{path}: cannot be read: {error.strerror}") from error
    except ET.ParseError as error:
        raise InvalidNetworkError(f"{path} is not a SUMO configuration: {error}") from error
    known = sumo_options()
    found: dict[Option, str] = {}
    for element in root.iter():
        value = element.get("value", element.get("v", element.text or "")).strip()
        if len(element) or not value:
            continue
        if element.tag not in known:
            raise InvalidNetworkError(f"{path}: SUMO has no option {element.tag}.")
        if known[element.tag] in found:
            raise InvalidNetworkError(f"{path}: the option {known[element.tag].name} is set twice.")
        # variables of the environment are replaced as SUMO does
        value = re.sub(r"\$\{(\w+)\}", lambda found: os.environ.get(found[1], ""), value)
        found[known[element.tag]] = value
    return found


@cache
def sumo_options() -> Mapping[str, Option]:
    """Return the options of the installed SUMO, by their names and synonyms."""
    import sumo  # commands know their options without it

    program = str(Path(sumo.SUMO_HOME, "bin", "sumo"))
    made = run_child([program, "--save-template=-"], TEMPLATE_TIMEOUT_S)
    made.check_returncode()
    options: dict[str, Option] = {}
    for section in ET.fromstring(made.stdout):
        for each in section:
            known = Option(each.tag, section.tag, each.get("type", ""), each.get("value", ""))
            options |= dict.fromkeys((each.tag, *each.get("synonymes", "").split()), known)
    return options


def judge(option: Option) -> tuple[str, str]:
    """Return what becomes of an option: read, kept, replaced, refused or unknown; and why."""
    for rule in _rules():
        patterns = rule.get("options", ())
        if option.section in rule.get("sections", ()) or any(
            fnmatchcase(option.name, pattern) for pattern in patterns
        ):
            return rule["verdict"], rule["why"]
    return "unknown", "this release does not know it"


@cache
def _rules() -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = tomllib.loads(_TABLE.read_text(encoding="utf-8"))["rules"]
    return rules


def _judged(path: Path, options: Mapping[Option, str]) -> Configured:
    arguments: list[str] = []
    files: list[Path] = []
    replaced: list[str] = []
    for option, value in options.items():
        verdict, why = judge(option)
        if verdict in ("refused", "unknown") and not option.is_default(value):
            raise InvalidScenarioError(f"{path}: the option {option.name} is refused, as {why}.")
        if verdict == "replaced":
            replaced.append(option.name)
        if verdict != "kept":
            continue
        if option.name == "step-length":
            _check_step(path, value)
        if option.kind == "FILE":
            named = _paths(_folder(path), value)
            if option.section == "gui_only" and not named[0].is_file():
                continue  # SUMO needs it for its window alone
            files += [each for each in named if not each.is_dir()]
            value = ",".join(map(str, named))
        arguments.append(f"--{option.name}={value}")
    return Configured(path, tuple(arguments), tuple(files), tuple(replaced))


def _check_step(path: Path, value: str) -> None:
    step_ms = round(1000 * _seconds(path, value))
    if step_ms < 1 or 1000 % step_ms:
        raise InvalidScenarioError(
            f"{path}: the step-length is {value} s, but signals change at whole seconds: choose a"
            " part of a second such as 1, 0.5 or 0.1."
        )


def _whole_seconds(path: Path, name: str, value: str) -> int:
    seconds = _seconds(path, value)
    if not seconds.is_integer():
        raise InvalidScenarioError(f"{path}: {name} is {value}, but must be in whole seconds.")
    return int(seconds)


def _seconds(path: Path, value: str) -> float:
    try:
        return seconds_of(value)
    except ValueError as error:
        raise InvalidNetworkError(f"{path}: {error}") from None


def _folder(path: Path) -> Path:
    return path.absolute().parent


def _paths(folder: Path, names: str) -> tuple[Path, ...]:
    return tuple(folder / name.strip() for name in names.split(",") if name.strip())
