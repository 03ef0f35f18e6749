"""Evaluations of what is recorded, as they are asked for: of which config, and what is refused."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.support.gateway import Gateway
from tests.unit.gateway.api.test_replaying_files import REPLAY, run, uploaded

import warren
from warren.cli.commands.runs import evaluations as commands
from warren.cli.commands.runs import replay as replays
from warren.cli.options import Gateway as GatewayOption
from warren_schemas.config import RecordingFilter
from warren_schemas.ids import RunId

__all__ = ["run"]

ALONE: dict[str, Any] = {**REPLAY, "evaluation": {}, "limits": {"steps": 0}}


async def test_it_takes_the_config_of_the_run_without_what_has_no_effect(
    client: warren.Client, run: RunId
) -> None:
    source = warren.RecordedSource(run=run, where=RecordingFilter(min_version=3))
    evaluation = await client.evaluate(recorded=source)
    found = evaluation.run.view.config
    recorder = (await client.run(run)).view.config
    assert found is not None and recorder is not None
    assert found.evaluates_recorded
    assert found.source == source
    assert [e.name for e in found.environments] == [e.name for e in recorder.environments]
    assert found.model.base == recorder.model.base


async def test_a_config_that_trains_nothing_is_replayed_into_an_evaluation(
    client: warren.Client, run: RunId
) -> None:
    sampled = {"episodes": 8, "samples": 2, "temperature": 1.0}
    into = {**ALONE, "evaluation": sampled, "seed": 5, "sampling": {"top_p": 0.9}}
    replay = await client.replay(run, into)
    assert replay.view.config == warren.TrainConfig(**ALONE, source=warren.RecordedSource(run=run))


async def test_a_data_set_needs_to_be_told_whose_and_of_what_it_is(
    client: warren.Client, run: RunId, tmp_path: Path
) -> None:
    dataset = await uploaded(client, run, tmp_path)
    source = warren.RecordedSource(dataset="monday")
    with pytest.raises(warren.ConfigurationError, match="Nothing says what to evaluate"):
        await client.evaluate(recorded=source)
    found = await client.evaluate(recorded=source, model="warren/tiny", environments=["guess"])
    config = found.run.view.config
    assert config is not None and isinstance(config.source, warren.RecordedSource)
    assert config.source.dataset == dataset.reference


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"evaluation": {"temperature": 1.0}}, "evaluation.temperature: no effect"),
        ({"sampling": {"top_p": 0.5}}, "sampling.top_p: no effect"),
        ({"model": {"base": "warren/tiny", "gpus": 2}}, "model.gpus: no effect"),
        ({"model": {"base": "warren/tiny", "update": {"kind": "full"}}}, "model.update: no effect"),
        ({"optimizer": {"learning_rate": 0.5}}, "optimizer.learning_rate: no effect"),
        ({"algorithm": {"critic": {}}}, "algorithm.critic: no effect"),
        ({"seed": 3}, "seed: no effect"),
        ({"source": {"epochs": 2}}, "source.epochs: no effect"),
        ({"limits": {"steps": 0, "episode_s": 9}}, "limits.episode_s: no effect"),
        (
            {"environments": [{"name": "guess", "config": {"high": 30}}]},
            "environments.0.config: no effect where recorded episodes keep the rewards",
        ),
        (
            {"environments": [{"name": "guess", "max_turns": 3}], "source": {"rewards": "scored"}},
            "environments.0.max_turns: no effect",
        ),
        ({"environments": [{"name": "other"}]}, "its episodes are of guess, too, and results"),
    ],
)
async def test_what_has_no_effect_is_refused(
    gateway: Gateway, run: RunId, keys: dict[str, Any], told: str
) -> None:
    source = {"kind": "recorded", "run": run, **keys.get("source", {})}
    body = {"config": {**ALONE, **keys, "source": source}}
    async with gateway.ann.post("/v1/runs", json=body) as response:
        assert response.status == 422
        assert told in await response.text()


async def test_what_scores_has_an_effect_where_it_is_scored(
    client: warren.Client, run: RunId
) -> None:
    environment = {"name": "guess", "config": {"high": 30}, "min_reward": 0.0, "episode_s": 5}
    config = {**ALONE, "environments": [environment], "limits": {"steps": 0, "failed_groups": 3}}
    source = warren.RecordedSource(run=run, rewards="scored")
    evaluation = await client.evaluate(config, recorded=source)
    found = evaluation.run.view.config
    assert found is not None and found.is_scored
    assert found.environments[0].config == {"high": 30}
    assert found.limits.failed_groups == 3


async def test_what_samples_is_refused_with_what_is_recorded(
    client: warren.Client, run: RunId
) -> None:
    source = warren.RecordedSource(run=run)
    with pytest.raises(warren.ConfigurationError, match="policy and samples: no effect"):
        await client.evaluate(recorded=source, policy="last@best", samples=2)


async def test_it_cannot_be_replayed_itself(client: warren.Client, run: RunId) -> None:
    evaluation = await client.evaluate(recorded=warren.RecordedSource(run=run))
    with pytest.raises(warren.ConfigurationError, match="is a replay itself; replay run_"):
        await client.replay(evaluation.run.id, REPLAY)


async def test_nothing_is_missing_for_it_and_nothing_will_be_sampled(
    client: warren.Client, run: RunId
) -> None:
    config = {**ALONE, "source": {"kind": "recorded", "run": run}}
    found = await client.check(config)
    assert not found.mistakes
    assert not [note for note in found.notes if "sampler" in note or "env worker" in note]
    assert found.estimate is not None
    assert (found.estimate.evaluation_episodes, found.estimate.sampled_tokens) == (0, 0)


async def test_the_commands_evaluate_a_recording(
    gateway: Gateway, run: RunId, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = gateway.ann.headers["Authorization"].removeprefix("Bearer ")
    here = GatewayOption(gateway.url, key)
    evaluating = partial(commands.recorded, gateway=here, detach=True, json=True)
    third = commands.Recording(where=("min_version=3",))
    await asyncio.to_thread(evaluating, run, recording=third)
    source = orjson.loads(capsys.readouterr().out)["config"]["source"]
    assert (source["run"], source["where"]["min_version"]) == (run, 3)
    with pytest.raises(warren.ConfigurationError, match="either a RUN or --dataset"):
        await asyncio.to_thread(evaluating)
    config = tmp_path / "config.yaml"
    config.write_bytes(orjson.dumps(ALONE))
    replaying = partial(replays.replay, run, into=config, gateway=here, detach=True)
    with pytest.raises(warren.ConfigurationError, match=r"--set evaluation\.episodes has no"):
        await asyncio.to_thread(replaying, set_=("evaluation.episodes=8",))
