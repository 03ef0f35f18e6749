"""Recorded trajectories over HTTP, as the SDK reads and exports them: complete, in order, resumable."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from tests.support.factories import (
    make_envelope,
    make_episode_ended,
    make_failed_episode,
    make_spec,
)
from tests.support.gateway import Gateway, ended, open_gateway, step
from tests.support.gateway_fixtures import connected
from tests.support.patience import PATIENCE_S
from tests.support.recorded import decided, has_read

import warren
from warren.cli.commands.runs import replay as commands
from warren.cli.commands.runs import trajectories as show
from warren.cli.options import Gateway as GatewayOption
from warren.display.trajectory import look
from warren.streams.export import export
from warren_broker.port import Broker
from warren_broker.topology import trajectories
from warren_gateway.position import Position
from warren_gateway.store.store import Store
from warren_gateway.timings import StreamTimings, TrajectoryTimings
from warren_schemas.codec.wire import MAX_ITEMS, encode
from warren_schemas.episode import Completed, EpisodeEnded
from warren_schemas.exports.files import ParquetFile
from warren_schemas.ids import EpisodeId, GroupId, RunId, new_message_id

GROUP = GroupId("group_1")


def items(run: RunId, n: int) -> list[EpisodeEnded]:
    """Members of one group, whose rewards are their numbers."""
    return [
        make_episode_ended(
            envelope=make_envelope(run=run, episode=EpisodeId(f"{GROUP}.{member}")),
            spec=make_spec(group=GROUP, member=member),
            outcome=Completed(reward=float(member)),
        )
        for member in range(n)
    ]


async def record(gateway: Gateway, run: RunId, *messages: list[EpisodeEnded]) -> None:
    for message in messages:
        await gateway.broker.publish(
            trajectories(run), encode(message), message_id=new_message_id()
        )


async def test_trajectories_come_once_in_order_and_from_anywhere(
    gateway: Gateway, client: warren.Client
) -> None:
    run = await gateway.submit()
    played = items(run, 5)
    await record(gateway, run, played[:2], played[2:3], played[3:])
    places = [Position(0), Position(0, 1), Position(1), Position(2), Position(2, 1)]
    await decided(gateway, run, GROUP, places)
    await has_read(gateway, run, 3)
    handle = await client.run(run)

    views = [view async for view in handle.trajectories()]

    assert [v.trajectory.spec.member for v in views] == [0, 1, 2, 3, 4]
    assert [v.offset for v in views] == [0, 1, MAX_ITEMS, 2 * MAX_ITEMS, 2 * MAX_ITEMS + 1]
    for n_seen, view in enumerate(views, start=1):
        rest = [v.offset async for v in handle.trajectories(from_=view.offset + 1)]
        assert rest == [v.offset for v in views[n_seen:]]
    some = [v.offset async for v in handle.trajectories(from_=1, limit=2)]
    assert some == [1, MAX_ITEMS]


async def test_an_answer_ends_where_the_run_has_read(
    gateway: Gateway, client: warren.Client
) -> None:
    run = await gateway.submit()
    played = items(run, 4)
    await record(gateway, run, played[:2], played[2:])
    await decided(gateway, run, GROUP, [Position(i // 2, i % 2) for i in range(4)])
    await has_read(gateway, run, 1)
    handle = await client.run(run)
    assert len([view async for view in handle.trajectories()]) == 2


async def test_following_tells_what_is_decided_and_ends_with_the_run(
    gateway: Gateway, client: warren.Client
) -> None:
    run = await gateway.submit()
    played = items(run, 3)
    await record(gateway, run, *([item] for item in played))
    handle = await client.run(run)
    async with aclosing(handle.trajectories(follow=True)) as views:
        first = asyncio.ensure_future(anext(views))
        await decided(gateway, run, GROUP, [Position(i) for i in range(3)])
        for index in range(3):
            await has_read(gateway, run, index + 1)
            await gateway.tell(run, step(index + 1))
            view = await asyncio.wait_for(first if index == 0 else anext(views), PATIENCE_S)
            assert (view.trajectory.spec.member, view.fate) == (index, "trained")
        await has_read(gateway, run, 3, "completed")
        await gateway.tell(run, ended())
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(anext(views), PATIENCE_S)


async def test_all_attempts_come_as_they_are_recorded(
    gateway: Gateway, client: warren.Client
) -> None:
    run = await gateway.submit()
    handle = await client.run(run)
    async with aclosing(handle.trajectories(follow=True, all_attempts=True)) as views:
        for index, item in enumerate(items(run, 2)):
            await record(gateway, run, [item])
            view = await asyncio.wait_for(anext(views), PATIENCE_S)
            assert (view.trajectory.spec.member, view.fate) == (index, None)


async def test_each_episode_comes_once_with_the_ending_that_counted(
    gateway: Gateway, client: warren.Client, tmp_path: Path
) -> None:
    """Whatever the stream holds besides: a message stored twice, another worker's ending of the same
    attempt, an attempt that was tried again, one that came too late."""
    run = await gateway.submit()
    first, second = items(run, 2)
    other = first.model_copy(update={"envelope": make_envelope(run=run), "worker": "another"})
    failed = make_failed_episode(envelope=make_envelope(run=run), spec=second.spec)
    again = second.model_copy(
        update={"envelope": second.envelope.model_copy(update={"attempt": 2})}
    )
    await record(gateway, run, [first], [first], [other, failed], [again], [second])
    await decided(gateway, run, GROUP, [Position(0), Position(3)], attempts=[1, 2])
    await has_read(gateway, run, 5, "completed")
    handle = await client.run(run)

    views = [view async for view in handle.trajectories()]
    assert [(v.offset, v.fate) for v in views] == [(0, "trained"), (3 * MAX_ITEMS, "trained")]
    after_first = [view.offset async for view in handle.trajectories(from_=1)]
    assert after_first == [3 * MAX_ITEMS], "nor does a twin come to who goes on behind the first"
    assert await export(handle.trajectories(), tmp_path / "all.jsonl") == (2, 0)

    fates = [view.fate async for view in handle.trajectories(all_attempts=True)]
    assert fates == ["trained", *["superseded"] * 3, "trained", "superseded"]


async def test_following_is_cut_off_when_the_gateway_stops(gateway: Gateway) -> None:
    """An answer that ended cleanly would pass for the whole."""
    run = await gateway.submit()
    await record(gateway, run, items(run, 1))
    await decided(gateway, run, GROUP, [Position(0)])
    await has_read(gateway, run, 1)
    path = f"/v1/runs/{run}/trajectories?follow=true"
    async with gateway.ann.get(path) as response:
        assert (await response.content.readline()).startswith(b"{")
        gateway.services.closing.set()
        with pytest.raises(aiohttp.ClientError):
            await asyncio.wait_for(response.content.read(), PATIENCE_S)


async def test_what_became_of_each_is_told(gateway: Gateway, client: warren.Client) -> None:
    run = await gateway.submit()
    await record(gateway, run, items(run, 3))
    await decided(gateway, run, GROUP, [Position(0, i) for i in range(3)], step=7)
    await has_read(gateway, run, 1)
    views = [view async for view in (await client.run(run)).trajectories()]
    assert [(view.fate, view.step) for view in views] == [("trained", 7)] * 3
    assert [round(view.advantage or 0.0, 3) for view in views] == [-1.0, 0.0, 1.0]
    text = "\n".join(line for line, _ in look(views[2]))
    assert "reward 2.000, advantage +1.000, 3 tokens by versions 2 to 3, trained" in text
    assert "[turn 1: reward 0.500, 3 tokens by versions 2 to 3]" in text


async def test_trajectories_that_are_gone_are_no_empty_answer(
    store: Store, broker: Broker, tmp_path: Path
) -> None:
    soon = StreamTimings(trajectories=TrajectoryTimings(ping_s=0.05, gone_s=0.1))
    async with open_gateway(store, broker, tmp_path, timings=soon) as gateway:
        run = await gateway.submit()
        await has_read(gateway, run, 7, "completed")
        async with connected(gateway) as client:
            handle = await client.run(run)
            with pytest.raises(warren.GatewayError, match="are gone") as refused:
                _ = [view async for view in handle.trajectories()]
    assert refused.value.status == 410


@pytest.mark.parametrize("since_s", [None, 1.0, 1e12], ids=["now", "long ago", "in the future"])
async def test_nothing_since_a_time_is_an_empty_answer(
    store: Store, broker: Broker, tmp_path: Path, since_s: float | None
) -> None:
    soon = StreamTimings(trajectories=TrajectoryTimings(ping_s=0.05, gone_s=0.1))
    async with open_gateway(store, broker, tmp_path, timings=soon) as gateway:
        run = await gateway.submit()
        await has_read(gateway, run, 7, "completed")
        asked_s = time.time() if since_s is None else since_s
        path = f"/v1/runs/{run}/trajectories?since_s={asked_s}"
        async with gateway.ann.get(path) as response:
            assert (response.status, (await response.read()).strip()) == (200, b"")


async def test_nobody_else_sees_them(gateway: Gateway) -> None:
    run = await gateway.submit()
    async with gateway.bob.get(f"/v1/runs/{run}/trajectories") as response:
        assert response.status == 404
    async with gateway.ann.get(f"/v1/runs/{run}/trajectories?offset=1&since_s=2") as response:
        assert response.status == 422


async def test_a_replay_needs_a_recording_of_ones_own(
    gateway: Gateway, client: warren.Client
) -> None:
    run = await gateway.submit()
    config = {"model": {"base": "warren/tiny"}, "environments": [{"name": "guess"}]}
    replay = await client.replay(run, config, from_=128)
    assert replay.view.config
    assert replay.view.config.source == warren.RecordedSource(run=run, from_offset=128)
    both = await client.replay(
        run, config, also=[await gateway.submit()], where={"min_reward": 0.5}
    )
    assert both.view.config and isinstance(both.view.config.source, warren.RecordedSource)
    assert both.view.config.source.where == warren.RecordingFilter(min_reward=0.5)
    for epochs, window, key in ((2, None, "epochs"), (1, 9, "shuffle_window")):
        with pytest.raises(warren.ConfigurationError) as unfinished:
            await client.replay(run, config, epochs=epochs, shuffle_window=window)
        assert f"source.{key} needs all of a recording, and {run} is queued" in str(
            unfinished.value
        )
    with pytest.raises(warren.ConfigurationError, match="no run run_4444"):
        await client.replay(run, config, also=["run_" + "4" * 28])
    with pytest.raises(warren.ConfigurationError, match="This can't be replayed"):
        await client.replay(run, config, also=[run])
    with pytest.raises(warren.ConfigurationError, match="This can't be replayed"):
        await client.replay(run, config, epochs=0)
    with pytest.raises(warren.ConfigurationError, match="This can't be replayed"):
        await client.replay(run, config, where={"reward": 1})
    for source, told in ((f"run_{0:028}", "there is no run"), (replay.id, "is a replay itself")):
        with pytest.raises(warren.ConfigurationError) as refused:
            await client.replay(source, config)
        assert told in str(refused.value)


@pytest.mark.parametrize("name", ["all.jsonl", "all.parquet"])
async def test_an_export_holds_every_trajectory(
    gateway: Gateway, client: warren.Client, tmp_path: Path, name: str
) -> None:
    run = await gateway.submit()
    await record(gateway, run, items(run, 5))
    await decided(gateway, run, GROUP, [Position(0, i) for i in range(5)])
    await has_read(gateway, run, 1)
    path = tmp_path / name
    assert await export((await client.run(run)).trajectories(), path) == (5, 0)
    assert left_in(tmp_path) == [name]
    rows = read_rows(path)
    assert [row["reward"] for row in rows] == [0.0, 1.0, 2.0, 3.0, 4.0]


def left_in(folder: Path) -> list[str]:
    return [file.name for file in folder.glob("all*")]


def read_rows(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".parquet":
        return ParquetFile.read(path)
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_an_export_as_traces_tells_what_it_leaves_out(
    gateway: Gateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await gateway.submit()
    whole, lost = items(run, 2)
    failed = make_failed_episode(envelope=lost.envelope, spec=lost.spec)
    await record(gateway, run, [whole, failed])
    await decided(gateway, run, GROUP, [Position(0), Position(0, 1)])
    await has_read(gateway, run, 1)
    here = GatewayOption(gateway.url, gateway.ann.headers["Authorization"].removeprefix("Bearer "))
    path = tmp_path / "all.traces.jsonl"
    await asyncio.to_thread(show.trajectories, run, to=path, gateway=here)
    assert capsys.readouterr().out.splitlines() == [
        f"1 trajectories of {run} lie in {path}",
        "1 are left out: they failed, or have no turn that a trace takes.",
    ]
    (trace,) = read_rows(path)
    assert trace.keys() == {"schema_version", "turns"}


async def test_an_export_needs_an_ending_that_is_known(tmp_path: Path) -> None:
    async def nothing() -> AsyncGenerator[warren.TrajectoryView]:
        return
        yield

    writing = partial(export, nothing())
    with pytest.raises(warren.ConfigurationError, match="no ending"):
        await writing(tmp_path / "all.csv")


async def test_the_commands_print_and_export(
    gateway: Gateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await gateway.submit()
    await record(gateway, run, items(run, 2))
    await decided(gateway, run, GROUP, [Position(0), Position(0, 1)])
    await has_read(gateway, run, 1)
    key = gateway.ann.headers["Authorization"].removeprefix("Bearer ")
    here = GatewayOption(gateway.url, key)
    await asyncio.to_thread(show.trajectories, run, gateway=here)
    told = capsys.readouterr().out
    assert told.count("guess train/3, train") == 2 and "Guess a number from 1 to 9." in told
    path = tmp_path / "all.parquet"
    for exporting in (commands.replay, show.trajectories):
        await asyncio.to_thread(exporting, run, to=path, from_="1", gateway=here)
        assert capsys.readouterr().out == f"1 trajectories of {run} lie in {path}\n"
    config = tmp_path / "config.yaml"
    await asyncio.to_thread(
        config.write_text, "model: {base: warren/tiny}\nenvironments: [{name: guess}]\n"
    )
    replaying = partial(commands.replay, run, into=config, detach=True, gateway=here)
    await asyncio.to_thread(replaying, set_=("algorithm.loss.kind=importance_sampling",))
    async with warren.connect(gateway.url, key) as client:
        replay = await client.run(capsys.readouterr().out.strip())
    config = replay.view.config
    assert config and config.algorithm.loss.kind == "importance_sampling"
    assert config.source.kind == "recorded"
