"""Looks for secrets where none may be: in files, and in the arguments of processes."""

import base64
import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

SHORTEST = 8  # shorter texts occur anywhere by chance


class Disclosure:
    """Secrets in the forms in which programs write them.

    Args:
        secrets: by what they are called in a finding.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        for name, secret in secrets.items():
            if len(secret) < SHORTEST:
                raise ValueError(f"{name} is too short to be looked for")
        self._forms = {name: set(_forms(secret)) for name, secret in secrets.items()}

    def in_text(self, content: bytes) -> Iterator[tuple[str, int]]:
        """Yield the name of each disclosed secret, and its first line."""
        for name, forms in self._forms.items():
            places = [content.find(form) for form in forms]
            if found := [place for place in places if place >= 0]:
                yield name, content.count(b"\n", 0, min(found)) + 1

    def in_files(self, paths: Iterable[Path]) -> list[str]:
        """Return a sentence for each secret in each regular file at or below the paths."""
        return [
            f"{name} in {path}:{line}"
            for path in _files(paths)
            for name, line in self.in_text(path.read_bytes())
        ]

    def in_arguments(self) -> list[str]:
        """Return a sentence for each secret in the arguments of any process of this machine."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                content = path.read_bytes()
                found += [f"{name} in {path}" for name, _ in self.in_text(content)]
        return found


def _forms(secret: str) -> Iterator[bytes]:
    raw = secret.encode()
    yield raw
    yield json.dumps(secret)[1:-1].encode()
    yield quote(secret, safe="").encode()
    yield raw.hex().encode()
    for shift in range(3):  # wherever it stands in what is encoded
        encoded = base64.b64encode(b"\0" * shift + raw)
        inner = encoded[4 * (shift > 0) : len(encoded) // 4 * 4 - 4]
        if len(inner) >= SHORTEST:
            yield inner
            yield inner.translate(bytes.maketrans(b"+/", b"-_"))


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        yield from (each for each in [path, *path.rglob("*")] if each.is_file())
