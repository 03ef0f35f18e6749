"""A config that is checked and not submitted."""

from typing import Any

from sqlmodel import Session
from tests.support.gateway import CONFIG, Gateway
from tests.support.items import heartbeat

from warren_gateway.checking.estimate import estimate
from warren_gateway.store.tables import Run
from warren_schemas.check import RunCheck
from warren_schemas.config import LARGEST_INT, TrainConfig
from warren_schemas.control import EnvironmentShape, WorkerRole
from warren_schemas.events import RunOutcome
from warren_schemas.http import RunResult
from warren_schemas.ids import RunId

SHAPE = EnvironmentShape(name="guess", keys=("low", "high"), splits=("train", "test"))


async def checked(gateway: Gateway, **changes: Any) -> RunCheck:
    body = {"config": CONFIG | changes}
    async with gateway.ann.post("/v1/runs/check", json=body) as response:
        assert response.status == 200
        return RunCheck.model_validate_json(await response.read())


def hear(gateway: Gateway, role: WorkerRole, offer: str, **fields: Any) -> None:
    beat = heartbeat(f"{role}_1").model_copy(update={"role": role, "offers": (offer,), **fields})
    gateway.services.registry.hear(beat)


def all_online(gateway: Gateway, **fields: Any) -> None:
    hear(gateway, WorkerRole.TRAINER, "warren/tiny")
    hear(gateway, WorkerRole.SAMPLER, "warren/tiny")
    hear(gateway, WorkerRole.ENVIRONMENT, "guess", **{"shapes": (SHAPE,)} | fields)


async def test_workers_that_are_not_online_are_no_mistake(gateway: Gateway) -> None:
    found = await checked(gateway)
    assert not found.mistakes
    assert any("no trainer offers warren/tiny (none is online)" in note for note in found.notes)
    async with gateway.ann.get("/v1/runs") as response:
        assert (await response.json())["runs"] == []


async def test_names_that_nobody_knows(gateway: Gateway) -> None:
    all_online(gateway)
    assert await checked(gateway) == RunCheck(
        mistakes=(), notes=(), estimate=(await checked(gateway)).estimate
    )
    found = await checked(gateway, model={"base": "warren/tinny"}, environments=[{"name": "gues"}])
    assert "did you mean warren/tiny?" in found.mistakes[0]
    assert found.mistakes[-1].startswith("environments.0.name: no env worker offers gues")
    assert "did you mean guess?" in found.mistakes[-1]


async def test_more_gpus_than_any_trainer_has(gateway: Gateway) -> None:
    all_online(gateway)
    found = await checked(gateway, model={"base": "warren/tiny", "gpus": 4})
    assert found.mistakes[0].startswith(
        "model.gpus: it needs 4 GPUs, and no trainer of warren/tiny"
    )


async def test_a_base_model_that_may_be_loaded_is_loaded_for_a_job_and_for_an_evaluation(
    gateway: Gateway,
) -> None:
    for role in (WorkerRole.TRAINER, WorkerRole.SAMPLER):
        hear(gateway, role, "warren/other", may_load=("warren/tiny",))
    found = await checked(gateway)
    assert not found.mistakes
    assert any("those that may load it" in note for note in found.notes)
    evaluation = await checked(gateway, limits={"steps": 0}, evaluation={"after": True})
    assert not evaluation.mistakes
    assert any("those that may load it" in note for note in evaluation.notes)


async def test_keys_and_splits_that_an_environment_does_not_have(gateway: Gateway) -> None:
    all_online(gateway)
    found = await checked(gateway, environments=[{"name": "guess", "config": {"lo": 1}}])
    assert found.mistakes == ("environments.0.config.lo: unknown key; did you mean low?",)
    found = await checked(gateway, environments=[{"name": "guess", "split": "trian"}])
    assert found.mistakes == (
        "environments.0.split: guess has no split 'trian'; did you mean train?",
    )


async def test_a_curriculum_of_levels_is_for_environments_that_have_some(gateway: Gateway) -> None:
    of_levels, of_tasks = {"n": 3}, {"n": 3, "over": "tasks"}

    async def mistakes(has_levels: bool | None, curriculum: dict[str, Any]) -> tuple[str, ...]:
        all_online(gateway, shapes=(SHAPE.model_copy(update={"has_levels": has_levels}),))
        environment = {"name": "guess", "curriculum": curriculum}
        return (await checked(gateway, environments=[environment])).mistakes

    (told,) = await mistakes(False, of_levels)
    assert told.startswith("environments.0.curriculum: guess has no levels")
    assert not await mistakes(False, of_tasks)
    assert not await mistakes(True, of_levels)
    assert not await mistakes(None, of_levels), "env workers tell"


async def test_an_environment_that_is_not_known_closer_is_a_note(gateway: Gateway) -> None:
    all_online(gateway, shapes=(EnvironmentShape(name="guess"),))
    found = await checked(gateway, environments=[{"name": "guess", "config": {"lo": 1}}])
    assert not found.mistakes
    assert "don't know the keys" in found.notes[0]


async def test_all_that_submit_would_refuse_is_told_at_once(gateway: Gateway) -> None:
    all_online(gateway)
    found = await checked(
        gateway,
        environments=[{"name": "guess", "dataset": "no-such", "config": {"lo": 1}}],
        resume_from={"run": "run_x", "checkpoint": "step-000001"},
    )
    assert len(found.mistakes) == 3
    assert found.mistakes[0].startswith("resume_from: there is no run run_x")
    assert found.mistakes[1].startswith("environments.0.dataset: ")
    assert found.mistakes[2].startswith("environments.0.config.lo: unknown key")
    found = await checked(gateway, source={"kind": "recorded", "run": "run_y"})
    assert found.mistakes[0].startswith("source.run: ") and "run_y" in found.mistakes[0]


async def complete(gateway: Gateway, *, name: str = "guess", **result: float) -> RunId:
    """A run of `ann` that has completed with this result."""
    run = await gateway.submit()
    body = RunResult(outcome=RunOutcome.TRAINED).model_dump(mode="json") | result

    def change(session: Session) -> None:
        row = session.get_one(Run, run)
        row.state, row.result = "completed", body
        environments = [{**row.config["environments"][0], "name": name}]
        row.config = {**row.config, "environments": environments}

    await gateway.store.transact(change)
    return run


async def test_what_it_will_cost_by_the_last_similar_runs(gateway: Gateway) -> None:
    assert (await checked(gateway)).expected is None
    planned = (await checked(gateway)).estimate.training_episodes
    first = await complete(gateway, episodes=2 * planned, tokens=20 * planned, wall_s=30.0)
    second = await complete(gateway, episodes=planned, tokens=40 * planned, wall_s=90.0)
    await complete(gateway, name="another", episodes=1, tokens=1, wall_s=1e6)
    limits = {"steps": 2 * TrainConfig.model_validate(CONFIG).limits.steps}
    found = (await checked(gateway, limits=limits)).expected
    assert found is not None
    assert found.runs == (second, first)
    assert (found.episodes, found.sampled_tokens) == (3 * planned, 60 * planned)
    assert (found.wall_s, found.least_wall_s, found.most_wall_s) == (120.0, 60.0, 180.0)
    async with gateway.bob.post("/v1/runs/check", json={"config": CONFIG}) as response:
        assert (await response.json())["expected"] is None  # others' runs are nobody's business


async def test_runs_with_other_work_are_not_similar_and_a_replay_samples_nothing(
    gateway: Gateway,
) -> None:
    planned = (await checked(gateway)).estimate.training_episodes
    run = await complete(gateway, episodes=planned, tokens=planned, wall_s=30.0)
    both = {"sft": {"steps": 3, "episodes_per_step": 2}}
    assert (await checked(gateway, **both)).expected is None
    recorded = {"kind": "recorded", "run": run}

    def replays(session: Session) -> None:
        row = session.get_one(Run, run)
        row.config = {**row.config, "source": recorded}

    await gateway.store.transact(replays)
    found = (await checked(gateway, source=recorded)).expected
    assert found is not None
    assert (found.runs, found.episodes, found.sampled_tokens) == ((run,), planned, 0)


def test_bounds_follow_from_the_config() -> None:
    config = TrainConfig.model_validate(
        {
            **CONFIG,
            "environments": [{"name": "guess", "max_turns": 4}, {"name": "b", "max_turns": 2}],
            "sampling": {"max_tokens": 10},
            "algorithm": {"group_size": 8, "groups_per_step": 2},
            "limits": {"steps": 10},
            "evaluation": {"episodes": 5, "every_steps": 3},
            "checkpoint": {"every_steps": 1, "keep_last": 2, "keep_every": 5, "keep_best": 1},
        }
    )
    found = estimate(config, 1000)
    assert found.training_episodes == 10 * 2 * 8
    assert found.evaluation_episodes == 5 * (1 + 3 + 1)  # after steps 3, 6 and 9
    assert found.sampled_tokens == (160 + 25) * 4 * 10
    assert found.kept_checkpoints == 2 + 1 + 2


def test_more_than_a_message_can_carry_is_told_as_the_most() -> None:
    config = {
        **CONFIG,
        "environments": [{"name": "guess", "max_turns": LARGEST_INT}],
        "checkpoint": {"keep_last": LARGEST_INT, "keep_best": LARGEST_INT},
    }
    found = estimate(TrainConfig.model_validate(config), None)
    assert (found.sampled_tokens, found.kept_checkpoints) == (LARGEST_INT, LARGEST_INT)


async def test_splits_are_looked_for_where_their_tasks_are_begun(gateway: Gateway) -> None:
    shape = EnvironmentShape(name="guess", keys=(), splits=("test",))
    all_online(gateway, shapes=(shape,))
    evaluated: dict[str, Any] = {
        "environments": [{"name": "guess", "evaluation_split": "test"}],
        "evaluation": {},
    }
    live = await checked(gateway, **evaluated)
    assert live.mistakes == ("environments.0.split: guess has no split 'train'; there are: test",)
    source = {"kind": "recorded", "run": await gateway.submit(), "rewards": "scored"}
    assert not (await checked(gateway, **evaluated, source=source)).mistakes
    assert not (await checked(gateway, source=source)).mistakes
    wrong: dict[str, Any] = {"environments": [{"name": "guess"}], "evaluation": {}}
    assert (await checked(gateway, **wrong, source=source)).mistakes == live.mistakes


async def test_a_replay_is_told_of_wrong_environments_if_they_are_to_score_it(
    gateway: Gateway,
) -> None:
    all_online(gateway)
    wrong = [{"name": "guess", "config": {"hihg": 3}}]
    recorded = {"kind": "recorded", "run": await gateway.submit()}
    unknown = [{"name": "gues"}]
    plain = await checked(gateway, source=recorded, environments=unknown)
    assert not plain.mistakes, "nobody plays it"
    source = {**recorded, "rewards": "scored"}
    missing = await checked(gateway, source=source, environments=unknown)
    assert any(mistake.startswith("environments.0.name: ") for mistake in missing.mistakes)
    scored = await checked(gateway, source=source, environments=wrong)
    assert scored.mistakes == ("environments.0.config.hihg: unknown key; did you mean high?",)
