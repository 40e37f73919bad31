"""Reads and writes network files: JSON or TOML in the form of :mod:`models.networks.form`."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from models.json_keys import check_keys
from models.networks.form import NetworkFile

MAX_FILE_BYTES = 256 * 2**20
_MISTAKES_TOLD = 20


class InvalidNetworkError(ValueError):
    """The file is not a network that can be served; each line of the message says one mistake."""


def read_network_file(path: str | os.PathLike[str]) -> NetworkFile:
    """Read and check a file, TOML by its name or JSON.

    Raises:
        InvalidNetworkError: it cannot be read or is no network.
    """
    name = os.fspath(path)
    try:
        if os.path.getsize(path) > MAX_FILE_BYTES:
            raise InvalidNetworkError(f"{name}: larger than {MAX_FILE_BYTES >> 20} MiB")
        content = Path(path).read_bytes()
    except OSError as error:
        raise InvalidNetworkError(f"{name}: cannot be read: {error.strerror}") from error
    if not content.strip():
        raise InvalidNetworkError(f"{name}: is empty")
    if content.lstrip().startswith(b"<"):
        raise InvalidNetworkError(
            f"{name}: is XML; make a network file of a SUMO network with greenwave network import"
        )
    try:
        if name.endswith(".toml"):
            return NetworkFile.model_validate(tomllib.loads(content.decode()))
        network = NetworkFile.model_validate_json(content)
        check_keys(content)
        return network
    except ValidationError as error:
        raise InvalidNetworkError(_told(name, error)) from error
    except ValueError as error:  # of TOML, of the encoding, or a key twice
        raise InvalidNetworkError(f"{name}: {error}") from error


def network_as_json(network: NetworkFile) -> str:
    """Return the text of a network's file, a line for each junction."""
    junctions = ",\n".join(
        json.dumps(each.model_dump(mode="json", exclude_none=True, exclude_unset=True))
        for each in network.junctions
    )
    said = network.model_dump(mode="json", exclude={"junctions"}, exclude_defaults=True)
    head = json.dumps({"format": network.format, **said})[1:-1]
    return f'{{{head}, "junctions": [\n{junctions}\n]}}\n'


def _told(name: str, error: ValidationError) -> str:
    mistakes = error.errors(include_url=False, include_context=False)
    lines = [f"{name}: {_place(each['loc'])}{each['msg']}" for each in mistakes[:_MISTAKES_TOLD]]
    if len(mistakes) > _MISTAKES_TOLD:
        lines.append(f"{name}: and {len(mistakes) - _MISTAKES_TOLD} further mistakes")
    return "\n".join(line.replace("Value error, ", "") for line in lines)


def _place(loc: tuple[Any, ...]) -> str:
    return ".".join(map(str, loc)) + ": " if loc else ""
