"""``greenwave grpc``: the Open Inference Protocol over gRPC, in front of the inference service."""

from __future__ import annotations

import argparse
import asyncio
import signal

from greenwave.client.connections import Connections
from greenwave.client.settings import Addresses
from serve_app.cli.hints import require
from serve_app.cli.terminal import notes
from serve_app.errors import CommandError

DEFAULT_PORT = 8033
MAX_CONNECTIONS = 128  # to the inference service; further calls wait for one


def add_grpc(command: argparse.ArgumentParser) -> None:
    help = "base URL of the inference service (default: %(default)s)"
    command.add_argument("--url", default="http://127.0.0.1:8000", help=help)
    help = "address to listen on, without TLS (default: %(default)s)"
    command.add_argument("--host", default="127.0.0.1", help=help)
    help = "port to listen on (default: %(default)s)"
    command.add_argument("--port", type=int, default=DEFAULT_PORT, help=help)
    command.set_defaults(run=_grpc)


def _grpc(options: argparse.Namespace) -> None:
    if not 0 <= options.port < 65_536:
        raise CommandError("--port must be 0 to 65535.")
    url = Addresses.at(options.url).inference
    require("tritonclient", "the messages of Triton's client", "grpc")
    asyncio.run(_serve(url, options.host, options.port))


async def _serve(url: str, host: str, port: int) -> None:
    from serve_app.grpc_transcoder import Transcoder, serve

    task = asyncio.current_task()
    assert task is not None
    # Ctrl-C cancels it, too
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    connections = Connections(MAX_CONNECTIONS, None)

    def on_start(bound: int) -> None:
        notes.print(f"gRPC at {host}:{bound}, from {url}. Ctrl-C stops it.")

    try:
        await serve(Transcoder(url, connections), host, port, on_start)
    except asyncio.CancelledError:
        pass
    finally:
        await connections.close()
