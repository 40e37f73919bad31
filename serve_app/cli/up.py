"""``greenwave up``: start and supervise an instance, and deploy the config.

The supervisor starts Ray and deploys the config; this command prepares both, waits for them,
and reports what runs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from deployments.store import Store
from serve_app.cli.arguments import add_config, add_timeout
from serve_app.cli.deploy import print_problems, read, rollout_of
from serve_app.cli.hints import greenwave_command
from serve_app.cli.terminal import results, warn
from serve_app.configured_network import network_at_root
from serve_app.errors import ROOT, CommandError, InstanceError
from serve_app.identity.inference_token import token_headers
from serve_app.processes.edge import ROUTES, Edge, behind_edge
from serve_app.processes.installation import edge_of, instance_of, status_file_of
from serve_app.processes.instance import START_TIMEOUT_S, Instance
from serve_app.processes.ports import add_port_base
from serve_app.processes.private_folder import make_private
from serve_app.processes.process_tags import Role
from serve_app.processes.supervision.supervisor import Supervisor
from serve_app.ray_dashboard import token_required
from serve_app.rollout import capacity
from serve_app.rollout.capacity import INFERENCE
from serve_app.rollout.node_environment import unreachable_redis
from serve_app.rollout.smoke_test import GATEWAY, has_policy, predict_once
from serve_app.settings import Settings

_POLL_S = 0.5


def add_up(up: argparse.ArgumentParser) -> None:
    up.set_defaults(run=_up)
    add_port_base(up, help="use the 500 ports from this one on, and a separate data folder")
    no_edge = "leave the documents' ports alone; Serve itself then takes port 8000"
    up.add_argument("--no-edge", action="store_true", help=no_edge)
    foreground = "stay until SIGTERM or Ctrl-C, then stop everything: for a container"
    up.add_argument("--foreground", action="store_true", help=foreground)
    without_policy = "start even if a policy's file is missing or broken: predictions are then 503"
    up.add_argument("--without-policy", action="store_true", help=without_policy)
    replace = "stop what was started from another folder, and start the code of this one"
    up.add_argument("--replace", action="store_true", help=replace)
    add_timeout(up)
    add_config(up)


def _up(options: argparse.Namespace) -> None:
    started = time.monotonic()
    if options.foreground:
        exit_on_sigterm()
    config = read(options, policies=not options.without_policy)
    instance = instance_of(options.port_base)
    settings = Settings.of_instance(options.port_base)
    _replace_other_code(options, instance)
    make_private(instance.data_dir)  # before secrets are written to it
    has_gateway = any(each["import_path"] == GATEWAY for each in config["applications"])
    if has_gateway:  # refuses unsafe settings before anything is started
        from serve_app.identity.keys import check_keys  # imports the gateway's code

        check_keys(settings)
    token = token_headers(settings)
    if instance.is_running():
        results.print("Ray is running already.")
        _supervise(options, instance)
        rollout_of(options, instance).deploy(behind_edge(config, instance))
    else:
        instance = _start(options, config)
    config = behind_edge(config, instance)
    lacks_policy = options.without_policy and not has_policy(instance.front_url)
    if not lacks_policy:
        first = predict_once(instance.front_url, token, network_at_root(config))
        results.print(f"First prediction: {first}")
    edge = None if options.no_edge else edge_of(instance)
    if edge:
        edge.apply(status_file_of(instance, Role.EDGE))
    _print_summary(instance, config["applications"], edge, time.monotonic() - started)
    if lacks_policy:
        print_no_policy(options)
        dependent = (INFERENCE, GATEWAY)  # not ready without a policy
        others = [each for each in config["applications"] if each["import_path"] not in dependent]
        print_problems(instance, config | {"applications": others})
    else:
        print_problems(instance, config)
    if has_gateway:
        _print_first_user(options)
    if options.foreground:
        stay(instance, Supervisor(instance, options.port_base))
    else:
        results.print(f"\nStop it with: {greenwave_command('down', options.port_base)}")


def _replace_other_code(options: argparse.Namespace, instance: Instance) -> None:
    """Stop an instance that was started from another folder, if that was asked for.

    Raises:
        InstanceError: it was not asked for.
    """
    running = instance.running_code()
    if running is None or running.folder == ROOT:
        return
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(running.since))
    if not options.replace:
        raise InstanceError(
            f"greenwave {running.version} from {running.folder} has been running at"
            f" {instance.base_url} since {since}. Nothing has been changed. To stop it and start"
            f" {ROOT}, add --replace; to run both, name another --port-base."
        )
    results.print(f"Stopping what runs from {running.folder} ...")
    instance.stop()


def _start(options: argparse.Namespace, config: dict[str, Any]) -> Instance:
    """Start Ray by the supervisor; a start that fails or is interrupted leaves nothing behind."""
    _check_room(config)
    if unreachable := list(unreachable_redis(os.environ)):
        raise CommandError("\n".join([*unreachable, "Nothing has been started."]))
    instance = instance_of(options.port_base)
    instance.make_folders()
    try:
        instance.stop()  # what is left of one that died
        for role in (Role.RAY, Role.EDGE):
            status_file_of(instance, role).clear()
        edge = edge_of(instance)
        edge.take_down()
        if options.no_edge:
            instance = replace(instance, ports=instance.ports.without_edge())
        else:
            edge.check()
        config = behind_edge(config, instance)
        results.print("Starting Ray; that takes up to a minute ...")
        rollout = rollout_of(options, instance)
        rollout.prepare_start(config)
        _supervise(options, instance)
        rollout.check = _check_supervised(instance)
        _wait_for_ray(instance, rollout.check)
        rollout.finish_start(config)
    except CommandError:
        instance.stop()
        raise
    except KeyboardInterrupt:
        warn("Interrupted: everything is being stopped ...")
        with _uninterrupted():
            instance.stop()
        raise
    return instance


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore a second Ctrl-C, which would leave what is being stopped."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _check_room(config: dict[str, Any]) -> None:
    nodes = [capacity.local_node()]
    if sentence := capacity.shortfall(config, nodes, capacity.FORKED):
        raise CommandError(f"{sentence} Nothing has been started.")
    if sentence := capacity.growth_limit(config, nodes, capacity.FORKED):
        warn(sentence)


def _supervise(options: argparse.Namespace, instance: Instance) -> None:
    supervisor = Supervisor(instance, options.port_base)
    if not supervisor.is_guarded():
        supervisor.start()


def _check_supervised(instance: Instance) -> Callable[[], None]:
    """Return a function that raises an error if no supervisor will go on with the start."""
    found = instance.processes(Role.SUPERVISOR)

    def check() -> None:
        nonlocal found
        found = [*filter(instance.owns, found)] or instance.processes(Role.SUPERVISOR)
        if not found:
            raise InstanceError("The supervisor and its guard have died. Everything was stopped.")

    return check


def _wait_for_ray(instance: Instance, check: Callable[[], None]) -> None:
    status_file = status_file_of(instance, Role.RAY)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not instance.is_running():
        check()
        error = status_file.read().error
        if error or time.monotonic() > deadline:
            raise InstanceError(error or f"Ray did not start; see {instance.data_dir / 'logs'}.")
        time.sleep(0.1)


def exit_on_sigterm() -> None:
    """Handle SIGTERM, which the first process of a container ignores by default, as Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def stay(instance: Instance, supervisor: Supervisor) -> None:
    """Wait for Ctrl-C or SIGTERM, and stop the instance.

    Raises:
        InstanceError: the guard of the supervisor has died; the instance has been stopped.
    """
    try:
        while supervisor.is_guarded():
            with contextlib.suppress(ChildProcessError):  # reap orphans, as a first process must
                while os.waitpid(-1, os.WNOHANG) != (0, 0):
                    pass
            time.sleep(_POLL_S)
        raise InstanceError("The supervisor has died; everything else was stopped.")
    except KeyboardInterrupt:
        return
    finally:
        instance.stop()


def _print_summary(
    instance: Instance, applications: list[dict[str, str]], edge: Edge | None, seconds: float
) -> None:
    results.print(f"\n[bold green]Ready[/bold green] after {seconds:.0f} s.\n", markup=True)
    for application in applications:
        route = application["route_prefix"]
        url = edge.url_of(route) if edge else instance.front_url + route
        results.print(f"  {application['name']:<14} {url}")
    served = {each["route_prefix"] for each in applications}
    for name, url in edge.urls().items() if edge else ():
        if ROUTES[name] & served:
            results.print(f"  {name + ' edge':<14} {url}")
    results.print(f"  {'Serve itself':<14} {instance.front_url}")
    token = f"  (asks for the token in {instance.token_file})" if token_required() else ""
    results.print(f"  {'dashboard':<14} {instance.dashboard_url}{token}")
    results.print(f"  {'metrics':<14} http://127.0.0.1:{instance.ports.metrics}/metrics")


def print_no_policy(options: argparse.Namespace) -> None:
    warn(
        "\nThe inference service has no policy: /health is no_model, and predictions are 503."
        "\nTo add one, put a good file in its place, set a new `revision` in the user_config of"
        f" Inference in {os.path.relpath(options.config)}, and run"
        f" `{greenwave_command('deploy', options.port_base)}`."
    )


def _print_first_user(options: argparse.Namespace) -> None:
    from serve_app.cli.opened_store import record_change, with_store
    from serve_app.identity.first_user import FILE_NAME, FIRST_USER, Credentials, create_first_user

    settings = Settings.of_instance(options.port_base)
    kept = settings.data_dir / FILE_NAME

    async def create(store: Store) -> Credentials | None:
        if credentials := await create_first_user(settings, store):
            await record_change(store, "user added", credentials.username)
        return credentials

    if credentials := with_store(settings.resolved_store_url, create):
        passwd = greenwave_command(f"users passwd {FIRST_USER}", options.port_base)
        results.print(
            f"\nUser of the gateway: {credentials.username}, password: {credentials.password}\n"
            f"Shown only once, and kept in {kept}"
            f" for `{greenwave_command('demo', options.port_base)}`\n"
            f"until you change it with: {passwd}",
        )
    elif kept.exists():
        results.print(f"\nThe first user of the gateway and its password are in {kept}")
