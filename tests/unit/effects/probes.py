"""What becomes of a config: one look for each part of Warren that reads it.

A probe runs the real part on the config and gives back, by the place where it is seen, all that came out.
The coordinator decides against a real store, the trainer trains a tiny model, the sampler samples from one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlmodel import Session
from tests.support.factories import make_episode_ended
from tests.support.groups import group_of
from tests.support.tokenizers import QWEN3, byte_tokenizer
from tests.support.trainer import BASE, engine_for, weights_of
from tests.support.trainer import MODEL as TRAINED
from tests.unit.effects.world import MODEL, RUN, PlayedWorld
from transformers import PreTrainedModel

from warren.testing import play
from warren_env_worker.environments.guess import Guess
from warren_env_worker.host.child.choice import chosen
from warren_env_worker.host.protocol import Start
from warren_env_worker.host.request import start_of
from warren_env_worker.permissions.granting import granted
from warren_gateway.access.caller import Viewer
from warren_gateway.coordinator import records
from warren_gateway.coordinator.lease.job import queue
from warren_gateway.coordinator.replaying.source import Recorded
from warren_gateway.recordings.stored import _to_archive  # pyright: ignore[reportPrivateUsage]
from warren_gateway.runs.checkpoints import require_checkpoint
from warren_gateway.runs.streams import recording
from warren_gateway.store.tables import Checkpoint, DatasetRow, Run
from warren_gateway.store.tables import Model as ModelRow
from warren_gpu_worker.base_models import load_tokenizer
from warren_gpu_worker.sampler.child.accepted_turns import AcceptedTurns
from warren_gpu_worker.sampler.child.policy_loader import PolicyLoader
from warren_gpu_worker.sampler.child.renderer import Renderer
from warren_gpu_worker.sampler.child.turns import Turns
from warren_gpu_worker.sampler.engines.port import PolicyKey
from warren_gpu_worker.sampler.engines.transformers.engine import EngineLimits, TransformersEngine
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_gpu_worker.sampler.messages import FinishedTurn, Orders, PolicySource, TurnRequest
from warren_gpu_worker.trainer.supervisor.fair_share import (
    _kind,  # pyright: ignore[reportPrivateUsage]
)
from warren_schemas.config import (
    RecordedFacts,
    RecordedSource,
    RecordingFilter,
    RetentionConfig,
    Sampling,
    TrainConfig,
)
from warren_schemas.episode import EpisodeSpec
from warren_schemas.events import RunState
from warren_schemas.http import DatasetSplit
from warren_schemas.ids import GroupId
from warren_schemas.operator_policy import TRUSTING
from warren_schemas.tensorboard.about import folder_name
from warren_schemas.training import ModelSpec, PublishPolicy, SaveState

EOS = 1
Facts = Mapping[str, Any]
"""By where it is seen."""

SOME_ROWS, OTHER_ROWS = f"me/monday@{'1' * 64}", f"me/tuesday@{'2' * 64}"
"""Data sets of trajectories."""


@dataclass(frozen=True)
class Bench:
    """What a probe may need."""

    base_folder: Path
    tiny: PreTrainedModel
    scratch: Path


Probe = Callable[[TrainConfig, Bench], Facts]


def run(config: TrainConfig, bench: Bench) -> Facts:
    """The coordinator drives a run in which all goes well."""
    return PlayedWorld(config, CHANCE).play().facts


def failing(config: TrainConfig, bench: Bench) -> Facts:
    """Some members of each group fail in every attempt."""
    return PlayedWorld(config, CHANCE, failing_members=frozenset({0})).play().facts


def broken(config: TrainConfig, bench: Bench) -> Facts:
    """All of them do."""
    return PlayedWorld(config, CHANCE, failing_members=frozenset(range(99))).play().facts


def level(config: TrainConfig, bench: Bench) -> Facts:
    """No episode does better than another one."""
    return PlayedWorld(config, CHANCE, is_level=True).play().facts


def idle(config: TrainConfig, bench: Bench) -> Facts:
    """No episode gets on, and time passes."""
    return PlayedWorld(config, CHANCE, is_idle=True).play().facts


def trained(config: TrainConfig, bench: Bench) -> Facts:
    """What the trainer makes of the ops of a run that goes well."""
    world = PlayedWorld(config, CHANCE).play()
    engine = engine_for(bench.base_folder, bench.scratch)
    spec = ModelSpec.model_validate(world.facts["model"] | {"base_model": BASE})
    outcomes = [engine.open(TRAINED, spec, checkpoint_url=None, next_op=1)]
    bodies = [world.applied[number].body for number in sorted(world.applied)]
    bodies = [body for body in bodies if not isinstance(body, SaveState | PublishPolicy)]
    outcomes += [engine.apply(TRAINED, number, body) for number, body in enumerate(bodies, 1)]
    assert all(outcome.status == "done" for outcome in outcomes), outcomes
    return {"weights": weights_of(engine), "batch sharing": _kind(spec)}


def sampled(config: TrainConfig, bench: Bench) -> Facts:
    """What a sampler says for a run's first episode, and in its evaluation."""
    starts = [spec for spec, _, _ in PlayedWorld(config, CHANCE).play().started]
    wanted = {spec["purpose"]: Sampling.model_validate(spec["sampling"]) for spec in starts[::-1]}
    return {"tokens": {purpose: _turns(sampling, bench) for purpose, sampling in wanted.items()}}


def _turns(sampling: Sampling, bench: Bench) -> list[Any]:
    """Some turns by the sampler's text layer and engine; and the prompt of a model that may think."""
    renderer = Renderer(load_tokenizer(str(bench.base_folder)), [EOS])
    limits = EngineLimits(64, 65_536, 1 << 30)
    engine = TransformersEngine(
        bench.tiny, endings=Endings([EOS], renderer.text), limits=limits, seed=0
    )
    accepted, key = AcceptedTurns(), PolicyKey("model")
    engine.load(key, 0, None)
    turns = Turns(
        engine, accepted, PolicyLoader(engine, accepted, lambda _: None), renderer, frozenset({EOS})
    )
    source, none_T = PolicySource(key, 0, None), np.zeros(0, np.int32)
    asked = [
        TurnRequest(number, source, none_T, (("user", f"guess {number}"),), sampling, None)
        for number in range(6)
    ]
    turns.follow(Orders(requests=asked))
    answers: list[Any] = []
    while turns.has_work:
        answers += [_said(answer) for answer in turns.step()]
    thinking = Renderer(byte_tokenizer(QWEN3), [])
    opening = thinking.open((("user", "?"),), thinking=sampling.thinking)
    return [sorted(answers, key=str), opening.tolist()]


def _said(answer: Any) -> tuple[Any, ...]:
    if isinstance(answer, FinishedTurn):
        logprobs = [round(logprob, 3) for logprob in answer.logprobs_T.tolist()]
        return answer.id, answer.ids_T.tolist(), logprobs, answer.text, answer.finish.value
    return answer.id, answer.kind, answer.reason


def environment(config: TrainConfig, bench: Bench) -> Facts:
    """What an env worker's process is told to start, and the environment shows."""
    found = [spec for spec, _, _ in PlayedWorld(config, CHANCE).play().started]
    specs = [EpisodeSpec.model_validate({**spec, "group": GroupId("group")}) for spec in found]
    starts = [start_of(spec, granted(TRUSTING, spec)) for spec in specs]
    shown = [
        play(Guess(**start.config), lambda _: "0", seed=start.seed, max_turns=1).messages  # pyright: ignore[reportArgumentType]
        for start in starts
    ]
    return {
        "environment": [(start.config, start.split, start.tool_format) for start in starts],
        "tasks": [_task_number(start) for start in starts],
        "observations": [[message.content for message in messages] for messages in shown],
    }


def _task_number(start: Start) -> int:
    """Of ten."""
    used = chosen(Guess(), range(10), start.split, start.task_ids)
    assert used is not None
    return used[start.order.position(start.index, len(used))]


def stored(config: TrainConfig, bench: Bench) -> Facts:
    """What is kept of the run, and under which name."""
    world = PlayedWorld(config, CHANCE)
    with Session(world.engine) as session:
        row = session.get_one(Run, RUN)
        row.state = RunState.RUNNING  # nothing is kept of a run that is queued
        session.flush()
        archived = [str(run) for run in _to_archive(session)]
        return {
            "stream": recording(RUN, config),
            "archive": archived,
            "trainer": queue(world.state).name,
            "folder": folder_name(row.name, row.id),
        }


def begun(config: TrainConfig, bench: Bench) -> Facts:
    """Where a run begins that goes on from, or replays, another one."""
    world = PlayedWorld(_other(config), CHANCE)
    with Session(world.engine) as session, session.begin():
        for run in ("run_other", "run_third"):
            _add_finished(session, run, config)
        for reference in (SOME_ROWS, OTHER_ROWS):
            session.add(_dataset(reference))
    with Session(world.engine) as session:
        session.get_one(Run, RUN).config = config.model_dump(mode="json")
        state = records.load(session, RUN, world.now_s)
        source = state.source
        readings = source.readings if isinstance(source, Recorded) else None
        return {
            "checkpoint": require_checkpoint(session, Viewer("me"), config),
            "recording": [
                (r.run, str(r.origin), r.read_from)
                for r in (readings.recordings if readings else ())
            ],
            "order": _order(source) if isinstance(source, Recorded) else [],
            "environments": state.uses_environments,
        }


def _order(source: Recorded) -> list[Any]:
    """Which recording is read when, and what is drawn of eight groups of the first."""
    groups = [group_of(make_episode_ended()) for _ in range(8)]
    for number, group in enumerate(groups):
        group.id = GroupId(f"group_{number}")
    drawn = [group for each in groups for group in source.window.put(each)]
    order = [group.id for group in (*drawn, *source.window.empty())]
    return [[reading for reading, _ in source.readings.left()], order]


def filtered(config: TrainConfig, bench: Bench) -> Facts:
    """Which of some recorded groups a replay takes."""
    source = config.source
    where = source.where if isinstance(source, RecordedSource) else RecordingFilter()
    facts = [
        RecordedFacts(reward, name, category, (version, version), frozenset({fate}), float(version))
        for reward in (0.0, 1.0)
        for name in ("guess", "other")
        for category in ("easy", "hard")
        for version in (1, 3, 7)
        for fate in ("trained", "stale")
    ]
    return {"filter": [where.admits(fact) for fact in facts]}


def _other(config: TrainConfig) -> TrainConfig:
    """As live as those that it goes on from."""
    return TrainConfig(
        model=config.model,
        environments=config.environments,
        limits=config.limits,
        retention=RetentionConfig(archive="jsonl"),
    )


def _dataset(reference: str) -> DatasetRow:
    splits = [
        DatasetSplit(name=name, sha256="5" * 64, size_bytes=1, n_rows=9, columns={})
        for name in ("train", "dev")
    ]
    name, _, digest = reference.removeprefix("me/").partition("@")
    return DatasetRow(
        id=f"data_{name}", owner="me", name=name, digest=digest, kind="trajectories",
        splits=[split.model_dump(mode="json") for split in splits], size_bytes=1, created_s=1.0,
        is_complete=True,
    )  # fmt: skip


def _add_finished(session: Session, run: str, config: TrainConfig) -> None:
    """Of these steps: 3, and 6."""
    url, model = f"mem://{run}/", f"model_{run}"
    session.add(
        Run(
            id=run, owner="me", name=run, config=_other(config).model_dump(mode="json"),
            state="completed", n_steps=6, created_s=1.0,
        )
    )  # fmt: skip
    session.flush()
    session.add(
        ModelRow(
            id=model, run_id=run, base_model="tiny", spec={}, checkpoint_url=f"{url}step-000006"
        )
    )
    session.flush()
    for step in (3, 6):
        name = f"step-{step:06d}"
        row = Checkpoint(
            model_id=model, name=name, op=step, version=step, step=step, url=url + name,
            size_bytes=1, created_s=1.0,
        )  # fmt: skip
        session.add(row)


class _NoChance:
    """Stands in for chance where nothing is left to it: of several it takes the first."""

    def choice(self, among: Any) -> Any:
        return among[0]


CHANCE: Any = _NoChance()

__all__ = ["MODEL", "Bench", "Facts", "Probe"]
