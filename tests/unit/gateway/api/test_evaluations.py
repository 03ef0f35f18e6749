"""Results of evaluations: over HTTP, as the SDK reads and compares them, and as the commands show them."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial

import pytest
import pytest_asyncio
from sqlmodel import Session, col, select
from tests.support.gateway import CONFIG, Gateway

import warren
from warren.cli.commands.runs import evaluations
from warren.cli.options import Gateway as GatewayOption
from warren.comparing import compare
from warren_gateway.store.tables import Checkpoint, EvaluationRow, GroupRow, Model, Run
from warren_schemas.ids import RunId

EASY, HARD = "easy", "hard"


@pytest_asyncio.fixture
async def client(gateway: Gateway) -> AsyncGenerator[warren.Client]:
    async with warren.connect(gateway.url, _key(gateway), retry_s=2.0) as client:
        yield client


def _key(gateway: Gateway) -> str:
    return gateway.ann.headers["Authorization"].removeprefix("Bearer ")


def _outcome(reward: float | None) -> dict[str, object]:
    if reward is None:
        return {"fate": "failed", "failure": "deadline", "reason": "late"}
    return {"fate": "evaluated", "reward": reward, "metrics": {"exact": reward}}


async def evaluated(
    gateway: Gateway, tasks: Mapping[int, Sequence[float | None]], *, number: int = 1, run: str = ""
) -> RunId:
    """A run with an evaluation of these rewards by task, None for failures; odd tasks are hard."""
    found = RunId(run) or await gateway.submit()
    samples = max(map(len, tasks.values()))

    def save(session: Session) -> None:
        session.add(
            EvaluationRow(
                run_id=found, number=number, occasion="after", step=3, version=5,
                n_planned=samples * len(tasks), samples=samples, state="complete", started_s=1.0,
                ended_s=2.0,
            )
        )  # fmt: skip
        for task, rewards in tasks.items():
            session.add(
                GroupRow(
                    id=f"group_{found}_{number}_{task}", run_id=found, number=100 * number + task,
                    purpose="evaluate", environment=0, task_index=90 - task, evaluation=number,
                    task_number=task, task_id=f"quiz-{task}" if task else None, category=HARD if task % 2 else EASY, n_members=len(rewards),
                    min_version=5, deadline_s=0.0, is_open=False, attempts=[1] * len(rewards),
                    outcomes=[_outcome(reward) for reward in rewards],
                )
            )  # fmt: skip

    await gateway.store.transact(save)
    return found


TASKS = {0: [1.0, 0.0], 1: [0.0, 0.0], 2: [1.0, 1.0], 3: [0.5, None]}


async def test_the_results_equal_a_hand_count(gateway: Gateway, client: warren.Client) -> None:
    run = await client.run(await evaluated(gateway, TASKS))
    (summary,) = await run.evaluations()
    report = await run.evaluation(1)
    assert (summary.number, summary.state, summary.samples) == (1, "complete", 2)
    scores = report.scores
    assert (scores.n_tasks, scores.n_episodes, scores.n_failed) == (4, 7, 1)
    assert scores.failures == {"deadline": 1}
    assert scores.reward_mean == pytest.approx(3.5 / 7)
    residuals = (0.0, -1.0, 1.0, 0.0)
    assert scores.reward_standard_error == pytest.approx(
        (4 / 3 * sum(r * r for r in residuals)) ** 0.5 / 7
    )
    assert [(p.k, p.value, p.n_tasks) for p in scores.pass_at_k] == [
        (1, pytest.approx((0.5 + 0 + 1 + 0) / 4), 4),
        (2, pytest.approx((1 + 0 + 1) / 3), 3),
    ]
    easier = (await run.evaluation(solved_at=0.5)).scores.pass_at_k[0]
    assert easier.value == pytest.approx((0.5 + 0 + 1 + 1) / 4)
    assert [c.category for c in report.categories] == [EASY, HARD]
    assert report.categories[0].scores.reward_mean == pytest.approx(0.75)
    assert [t.rewards for t in report.tasks] == [(1.0, 0.0), (0.0, 0.0), (1.0, 1.0), (0.5,)]
    assert [t.task_id for t in report.tasks] == ["train/0", "quiz-1", "quiz-2", "quiz-3"]


async def test_two_are_compared_by_the_tasks_that_both_have(
    gateway: Gateway, client: warren.Client
) -> None:
    first = await client.run(await evaluated(gateway, TASKS))
    better = {0: [1.0], 1: [0.5], 2: [1.0], 7: [1.0]}
    second = await client.run(await evaluated(gateway, better))
    found = compare(await first.evaluation(), await second.evaluation())
    differences = (0.5, 0.5, 0.0)
    assert found.test.n_tasks == 3
    assert found.test.difference == pytest.approx(sum(differences) / 3)
    assert found.test.p_value == pytest.approx(0.5), "2 of 4 assignments of signs are as far from 0"
    assert (found.n_only_baseline, found.n_only_other) == (1, 1)
    assert [(t.task_id, t.baseline_mean, t.other_mean, t.change) for t in found.tasks] == [
        ("quiz-2", 1.0, 1.0, "same"),
        ("train/0", 0.5, 1.0, "solved"),
        ("quiz-1", 0.0, 0.5, "same"),
    ]
    assert [(c.category, c.test.n_tasks) for c in found.categories] == [(EASY, 2), (HARD, 1)]


async def test_evaluations_without_a_common_task_are_not_compared(
    gateway: Gateway, client: warren.Client
) -> None:
    first = await client.run(await evaluated(gateway, {0: [1.0]}))
    second = await client.run(await evaluated(gateway, {1: [1.0]}))
    with pytest.raises(warren.ConfigurationError, match="share no task"):
        compare(await first.evaluation(), await second.evaluation())


async def test_who_has_none_says_so(gateway: Gateway, client: warren.Client) -> None:
    run = await client.run(await gateway.submit())
    assert await run.evaluations() == ()
    with pytest.raises(warren.NotFound, match="no evaluation yet"):
        await run.evaluation()
    with pytest.raises(warren.NotFound, match="no evaluation 7") as caught:
        await run.evaluation(7)
    assert caught.value.hint is not None
    assert f"`warren eval show {run.id}`" in caught.value.hint


async def test_one_that_its_run_did_not_end_is_abandoned(
    gateway: Gateway, client: warren.Client
) -> None:
    run = await client.run(await evaluated(gateway, {0: [1.0]}))

    def leave(session: Session) -> None:
        row = session.get_one(EvaluationRow, (run.id, 1))
        row.state, row.ended_s = "running", None

    await gateway.store.transact(leave)
    assert (await run.evaluation()).state == "running"
    await run.cancel()
    assert (await run.refresh()).state in ("queued", "cancelled")


async def test_the_commands_show_tables_and_json(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await evaluated(gateway, TASKS)
    await evaluated(gateway, {task: [1.0] for task in range(4)}, number=2, run=run)
    here = GatewayOption(url=gateway.url, api_key=_key(gateway))
    await asyncio.to_thread(evaluations.show, f"{run}:1", gateway=here)
    shown = capsys.readouterr().out
    assert "0.500 ± 0.233" in shown
    assert [line.split()[0] for line in shown.splitlines() if "  " in line][:4] == [
        "TASKS", "all", EASY, HARD,
    ]  # fmt: skip
    await asyncio.to_thread(evaluations.show, run, gateway=here, json=True)
    assert json.loads(capsys.readouterr().out)["number"] == 2, "the newest"
    await asyncio.to_thread(evaluations.compare, f"{run}:1", run, gateway=here)
    told = capsys.readouterr().out
    assert "every assignment of signs" in told
    await asyncio.to_thread(evaluations.compare, f"{run}:1", run, gateway=here, json=True)
    (comparison,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert comparison["test"]["n_tasks"] == 4


async def test_the_commands_tell_which_tasks_are_solved_by_now_and_which_no_longer(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await evaluated(gateway, TASKS)
    await evaluated(gateway, {0: [1.0], 2: [0.0], 3: [1.0]}, number=2, run=run)
    here = GatewayOption(url=gateway.url, api_key=_key(gateway))
    await asyncio.to_thread(evaluations.show, f"{run}:1", by="task", gateway=here)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["train/0", *EASY.split(), "2", "0", "0.500", "1", "of", "2"] in lines
    assert ["quiz-3", *HARD.split(), "1", "1", "0.500", "0", "of", "1"] in lines
    await asyncio.to_thread(evaluations.compare, f"{run}:1", run, by="task", gateway=here)
    told = capsys.readouterr().out
    assert "in B and not in A: 2; in A and no longer in B: 1." in told
    lines = [line.split() for line in told.splitlines()]
    assert [line[0] for line in lines if line[0] in ("train/0", "quiz-2", "quiz-3")] == [
        "quiz-2", "train/0", "quiz-3",
    ]  # fmt: skip
    compare_easier = partial(evaluations.compare, by="task", solved_at=0.5, gateway=here)
    await asyncio.to_thread(compare_easier, f"{run}:1", run)
    assert "in B and not in A: 1; in A and no longer in B: 1." in capsys.readouterr().out


async def test_recorded_groups_that_lack_a_member_are_counted_and_shown(
    gateway: Gateway, client: warren.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await client.run(await evaluated(gateway, TASKS))
    whole = await run.evaluation()
    assert whole.n_incomplete_groups == 0

    def lose(session: Session) -> None:
        """Of one task the first episode failed, of another it ended, and the second never did."""
        for task, first in ((0, _outcome(1.0) | {"fate": "incomplete"}), (1, _outcome(None))):
            group = session.get_one(GroupRow, f"group_{run.id}_1_{task}")
            group.outcomes = [first, {"fate": "incomplete"}]

    await gateway.store.transact(lose)
    report = await run.evaluation()
    assert report.n_incomplete_groups == 2
    assert (report.scores.n_tasks, report.scores.n_episodes, report.scores.n_failed) == (2, 3, 1)
    assert report.scores.reward_mean == pytest.approx(2.5 / 3)
    here = GatewayOption(gateway.url, _key(gateway))
    await asyncio.to_thread(evaluations.show, run.id, gateway=here)
    line = "2 groups lack an episode that never ended in the recording: left out"
    assert f"{line}.\n" in capsys.readouterr().out
    other = await evaluated(gateway, TASKS)
    await asyncio.to_thread(evaluations.compare, f"{run.id}:1", f"{other}:1", gateway=here)
    assert [line in told for told in capsys.readouterr().out.splitlines()[:2]] == [True, False]


async def test_the_policy_of_a_replay_is_evaluated_as_the_run_plays_that_recorded_it(
    gateway: Gateway, client: warren.Client
) -> None:
    played = {
        "model": {"base": "warren/tiny"},
        "environments": [{"name": "guess", "config": {"high": 5}, "max_turns": 3, "weight": 2.0}],
        "sampling": {"max_tokens": 4, "top_p": 0.9},
    }
    recorder = await client.train(played)
    mine = {"name": "guess", "config": {"high": 7}, "max_failed_members": 1}
    replays = [
        await client.replay(recorder, {**played, "environments": [mine]}, score=score)
        for score in (False, True)
    ]

    def finish(session: Session) -> None:
        for replay in replays:
            session.get_one(Run, replay.id).state = "completed"
            model = session.exec(select(Model).where(col(Model.run_id) == replay.id)).one()
            model.checkpoint_url = url = f"file:///{replay.id}"
            session.add(
                Checkpoint(
                    model_id=model.id, name="step-000001", op=1, version=1, step=1, url=url, size_bytes=1, created_s=1.0
                )
            )  # fmt: skip

    await gateway.store.transact(finish)
    for replay, high in zip(replays, (5, 7), strict=True):
        evaluation = await client.evaluate(policy=f"{replay.id}@last")
        config = evaluation.run.view.config
        assert config is not None
        assert (config.sampling.max_tokens, config.sampling.top_p) == (4, 0.9)
        (environment,) = config.environments
        assert (environment.max_turns, environment.config) == (3, {"high": high})


async def test_an_evaluation_is_submitted_from_what_is_given(client: warren.Client) -> None:
    base = await client.evaluate(
        model="warren/tiny", environments=["guess"], episodes=8, samples=2, temperature=1.0
    )
    config = base.run.view.config
    assert config is not None
    assert config.is_evaluation
    assert config.evaluation is not None
    assert (config.evaluation.episodes, config.evaluation.samples) == (8, 2)
    of_config = await client.evaluate(CONFIG, episodes=4)
    assert of_config.run.view.config is not None
    assert of_config.run.view.config.limits.steps == 0
    with pytest.raises(warren.ConfigurationError, match="what to evaluate"):
        await client.evaluate()
    with pytest.raises(warren.ConfigurationError, match="saved no checkpoint"):
        await client.evaluate(policy=f"{base.run.id}@best")
    with pytest.raises(warren.ConfigurationError, match="not both"):
        await client.evaluate(policy="x", model="y")
