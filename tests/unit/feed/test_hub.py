import asyncio

from deployments.feed.hub import COLLECT_S, FORGET_S, LISTEN_S, MAX_REPORTS, MAX_RUNS, Hub
from deployments.feed.messages import NO_DEMAND, Demand
from tests.support.virtual_time import virtual_time
from tests.unit.console.reports import report


@virtual_time
async def test_each_report_reaches_all_who_watch_once_and_nobody_who_comes_later():
    hub = Hub()
    assert hub.report(report(requests=1)) == NO_DEMAND
    for watcher in ("one", "other"):
        assert await hub.collect(watcher, []) == []
    assert hub.report(report(requests=2)) == Demand(True)
    for watcher in ("one", "other"):
        assert await hub.collect(watcher, []) == [report(requests=2)]
        assert await hub.collect(watcher, []) == []


@virtual_time
async def test_a_watcher_has_a_report_as_soon_as_it_comes():
    hub, now = Hub(), asyncio.get_running_loop().time
    began = now()
    assert await hub.collect("one", []) == []
    assert now() - began == COLLECT_S
    collecting = asyncio.create_task(hub.collect("one", []))
    await asyncio.sleep(0.3)
    hub.report(report(requests=1))
    assert await collecting == [report(requests=1)]
    assert now() - began == COLLECT_S + 0.3


@virtual_time
async def test_a_replica_is_told_the_demand_when_it_changes_and_not_before():
    hub, now = Hub(), asyncio.get_running_loop().time
    began = now()
    assert await hub.listen(NO_DEMAND) == NO_DEMAND
    assert now() - began == LISTEN_S
    listening = asyncio.create_task(hub.listen(NO_DEMAND))
    await asyncio.sleep(1)
    await hub.collect("one", ["x", "y"])
    assert await listening == Demand(True, frozenset("xy"))
    await hub.collect("other", ["y", "z"])
    assert await hub.listen(Demand(True, frozenset("xy"))) == Demand(True, frozenset("xyz"))
    await hub.collect("one", [f"run-{n}" for n in range(100)])
    assert len(hub.report(report()).runs) == MAX_RUNS


@virtual_time
async def test_who_watches_no_more_is_forgotten_and_replicas_are_told_so():
    hub = Hub()
    await hub.collect("one", ["x"])
    await asyncio.sleep(FORGET_S - COLLECT_S - 0.1)
    assert hub.report(report()).runs == {"x"}
    await asyncio.sleep(0.2)
    assert hub.report(report()) == NO_DEMAND
    assert await hub.collect("one", ["x"]) == []


@virtual_time
async def test_what_is_kept_for_a_watcher_that_collects_too_seldom_is_bounded():
    hub = Hub()
    await hub.collect("one", [])
    for number in range(MAX_REPORTS + 10):
        hub.report(report(requests=number))
    collected = await hub.collect("one", [])
    assert len(collected) == MAX_REPORTS
    assert collected[-1] == report(requests=MAX_REPORTS + 9)
