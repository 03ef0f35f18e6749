"""Replays that are to be scored anew, as they are asked for: what must be named, and what can't be scored."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.support.gateway import Gateway
from tests.unit.gateway.api.test_replaying_files import REPLAY, run

import warren
from warren.cli.commands.runs import replay as commands
from warren.cli.options import Gateway as GatewayOption
from warren_schemas.ids import RunId

__all__ = ["run"]

ELSEWHERE: dict[str, Any] = {**REPLAY, "environments": [{"name": "other"}]}


async def test_every_environment_of_the_recording_must_be_named(
    client: warren.Client, run: RunId
) -> None:
    replay = await client.replay(run, REPLAY, score=True)
    assert replay.view.config and replay.view.config.source == warren.RecordedSource(
        run=run, rewards="scored"
    )
    with pytest.raises(warren.ConfigurationError) as refused:
        await client.replay(run, ELSEWHERE, score=True)
    assert "its episodes are of guess, too" in str(refused.value)
    await client.replay(run, ELSEWHERE)
    await client.replay(run, ELSEWHERE, score=True, where={"environments": ["other"]})


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"from_archive": True}, "an archive doesn't hold what tells"),
        ({"run": None, "dataset": "monday"}, "a data set doesn't hold what tells"),
        ({"rewards": "better"}, "source.rewards"),
    ],
)
async def test_what_cannot_be_scored_is_refused_before_anything_starts(
    gateway: Gateway, run: RunId, source: dict[str, Any], told: str
) -> None:
    asked = {"kind": "recorded", "run": run, "rewards": "scored", **source}
    body = {"config": {**REPLAY, "source": asked}}
    async with gateway.ann.post("/v1/runs", json=body) as response:
        assert response.status == 422
        assert told in await response.text()


async def test_the_command_has_a_recording_scored(
    gateway: Gateway, run: RunId, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = gateway.ann.headers["Authorization"].removeprefix("Bearer ")
    config = tmp_path / "config.yaml"
    config.write_bytes(orjson.dumps(REPLAY))
    replaying = partial(commands.replay, run, score=True, gateway=GatewayOption(gateway.url, key))
    await asyncio.to_thread(replaying, into=config, detach=True, json=True)
    view = orjson.loads(capsys.readouterr().out)
    assert view["config"]["source"]["rewards"] == "scored"
    with pytest.raises(warren.ConfigurationError, match="--score needs --into"):
        await asyncio.to_thread(replaying, look=True)
