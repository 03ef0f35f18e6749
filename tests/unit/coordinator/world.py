"""A world for the coordinator's logic: a real store, a trainer and env workers that are a few lines.

Everything happens in an order drawn from a seed: episodes end late, twice or in failure, trainers
answer twice or die, and the coordinator itself is forgotten and loaded again from the store.
"""

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from pydantic import JsonValue
from sqlalchemy import Engine
from sqlmodel import Session, create_engine, select
from tests.support.databases import memory_engine

from warren_gateway.coordinator import answering, decisions, records
from warren_gateway.coordinator.lease import job, trainer_lease
from warren_gateway.coordinator.replaying.counted import Counted, counted_places
from warren_gateway.coordinator.replaying.files import Files
from warren_gateway.coordinator.replaying.recording import Recording
from warren_gateway.coordinator.replaying.source import Recorded
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.open_groups import OpenGroups
from warren_gateway.coordinator.state.recorded import Message
from warren_gateway.coordinator.state.rows import RowsOfSplit
from warren_gateway.datasets import resolving
from warren_gateway.position import Position
from warren_gateway.store.tables import Checkpoint, Model, Run
from warren_schemas.codec.wire import decode
from warren_schemas.config import RecordedSource, TrainConfig
from warren_schemas.control import (
    EpisodeCancelled,
    Heartbeat,
    HeldModel,
    RunChanged,
    RunEnded,
    WorkerRole,
)
from warren_schemas.envelope import Envelope, Item
from warren_schemas.episode import (
    Completed,
    EpisodeEnded,
    EpisodePurpose,
    Failed,
    FailureKind,
    Generate,
    StartEpisode,
)
from warren_schemas.events import EvaluationCompleted, RunEvent, StepCompleted
from warren_schemas.fields.limits import MAX_KEPT
from warren_schemas.ids import ModelId, RunId, WorkerId
from warren_schemas.metrics.registry import find
from warren_schemas.metrics.rows import tagged
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.training import (
    KEEP_POLICIES,
    CloseModel,
    Forward,
    ForwardBackward,
    Job,
    ModelSpec,
    Op,
    OpDone,
    OpenModel,
    OpFailed,
    OpResult,
    OptimStep,
    Policy,
    PublishPolicy,
    SaveState,
    checkpoint_order,
)  # fmt: skip
from warren_schemas.transcript import ChatMessage, Tokens, Transcript, Turn

RUN, MODEL = RunId("run_1"), ModelId("model_1")
REPLAY, NEW_MODEL = RunId("run_2"), ModelId("model_2")
MOST_MOVES = 20_000
_ROLES = (WorkerRole.SAMPLER, WorkerRole.ENVIRONMENT, WorkerRole.TRAINER)
N_ROWS = 10
"""Of any data set."""


EPISODE_S = 50.0


def config(**changes: object) -> TrainConfig:
    base: dict[str, object] = {
        "model": {"base": "tiny"},
        "environments": [{"name": "guess"}],
        "algorithm": {"group_size": 4, "groups_per_step": 2, "max_staleness": 1},
        "limits": {"steps": 6, "episode_s": EPISODE_S, "episode_attempts": 2},
        "checkpoint": {"every_steps": 3},
    }
    return TrainConfig.model_validate({**base, **changes})


Started = StartEpisode | Generate
"""An episode for an env worker, or a row that a sampler is to make tokens of."""


class FakeRows:
    """A split of a data set."""

    def __len__(self) -> int:
        return N_ROWS

    def row(self, number: int) -> dict[str, Any]:
        said = (("user", f"{number}?"), ("assistant", f"{number}!"))
        return {"messages": [{"role": role, "content": content} for role, content in said]}


@dataclass
class Trainer:
    """Applies ops by number and remembers what it was asked to train on."""

    worker: WorkerId
    epoch: int
    next_op: int
    version: int
    waiting: dict[int, Op] = field(default_factory=dict[int, Op])
    answered: dict[int, tuple[str, OpDone]] = field(default_factory=dict[int, tuple[str, OpDone]])
    """Id of the op's envelope, and the answer."""
    weights: str = ""
    """Stands for them: a digest of all ops that made them."""


@dataclass
class World:
    config: TrainConfig
    rng: random.Random
    failure_rate: float = 0.0
    failing: EpisodePurpose | None = None
    """Every episode of this purpose fails."""
    environments: tuple[str, ...] = ("guess", "other")
    """What env workers offer."""
    away: WorkerRole | None = None
    """No worker of this role is there."""
    rewards: tuple[float, ...] = (0.0, 0.0, 1.0)
    rows: RowsOfSplit = field(default_factory=FakeRows)
    """Of each split of any data set."""
    tokenizer: str = "a"
    """Of the samplers: its digest."""
    trainers_tokenizer: str = "a"
    now_s: float = 1000.0
    engine: Engine = field(default_factory=memory_engine)
    episodes: list[Started] = field(default_factory=list[Started])
    stream: list[EpisodeEnded] = field(default_factory=list[EpisodeEnded])
    n_read: int = 0
    answers: list[OpResult] = field(default_factory=list[OpResult])
    events: list[RunEvent] = field(default_factory=list[RunEvent])
    endings: list[Item] = field(default_factory=list[Item])
    cancelled: list[EpisodeCancelled] = field(default_factory=list[EpisodeCancelled])
    trainer: Trainer | None = None
    checkpoints: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """URL -> (op, version)."""
    notes: dict[str, dict[str, JsonValue] | None] = field(
        default_factory=dict[str, dict[str, JsonValue] | None]
    )
    """URL -> what the checkpoint says."""
    checkpoint_url: str | None = None
    """The model starts with this one, of another run."""
    applied: dict[int, Op] = field(default_factory=dict[int, Op])
    published: dict[int, str] = field(default_factory=dict[int, str])
    weights_saved: dict[str, str] = field(default_factory=dict[str, str])
    """By the checkpoint's URL."""
    weights_published: dict[int, set[str]] = field(default_factory=dict[int, set[str]])
    """All that were ever published under a version."""
    kept: set[int] = field(default_factory=set[int])
    """Published versions that were not deleted."""
    n_generations: int = 0
    drained: set[WorkerId] = field(default_factory=set[WorkerId])
    """Trainers that take nothing new."""
    run: RunId = RUN
    model: ModelId = MODEL
    state: CoordinatorState = field(init=False)

    def __post_init__(self) -> None:
        spec = ModelSpec(base_model="tiny", update=self.config.model.update)
        with Session(self.engine) as session, session.begin():
            session.add(
                Run(
                    id=self.run, owner="me", name="r", config=self.config.model_dump(mode="json"),
                    state="queued", n_steps=self.config.limits.steps, created_s=self.now_s,
                )
            )  # fmt: skip
            session.flush()
            session.add(
                Model(
                    id=self.model, run_id=self.run, base_model="tiny",
                    spec=spec.model_dump(mode="json"), checkpoint_url=self.checkpoint_url,
                )
            )  # fmt: skip
        self.load()

    def load(self) -> None:
        """The coordinator starts over from the store, and reads the stream from where it says."""
        with Session(self.engine) as session:
            state = records.load(session, self.run, self.now_s)
        names = resolving.references(state.config)
        state.rows = {name: defaultdict(self._split) for name in names}
        self.state = state
        self.n_read = state.rollouts.stream_offset

    def _split(self) -> RowsOfSplit:
        return self.rows

    def alive(self, role: WorkerRole | None) -> Sequence[Heartbeat]:
        roles = _ROLES if role is None else (role,)
        is_there = (WorkerRole.TRAINER, *(each for each in _ROLES if each is not self.away))
        return [self._heard(each) for each in roles if each in is_there]

    def _heard(self, role: WorkerRole) -> Heartbeat:
        if role is WorkerRole.SAMPLER:
            return _beat("sampler", role, "tiny")
        if role is WorkerRole.ENVIRONMENT:
            return _beat("env", role, *self.environments)
        return self._drained(self._trainer_beat())

    def _drained(self, beat: Heartbeat) -> Heartbeat:
        if beat.worker not in self.drained:
            return beat
        changes = {"is_draining": True, "offers": (), "drained_offers": beat.offers}
        return beat.model_copy(update=changes)

    def _trainer_beat(self) -> Heartbeat:
        if self.trainer is None:
            return _beat(f"trainer-{self.n_generations}", WorkerRole.TRAINER, "tiny")
        held = (self.model, self.trainer.epoch)
        return _beat(self.trainer.worker, WorkerRole.TRAINER, "tiny", held=held)

    def decide(self) -> None:
        """What the coordinator does after each piece of mail."""
        self.state.now_s = self.now_s
        if decisions.wants_trainer(self.state, self.alive):
            self._grant()
        decisions.decide(self.state, self.alive)
        check_counts(self.state.rollouts.groups)
        self._commit()

    def stand_still(self) -> None:
        """What the coordinator does while the rows of its data sets can't be read."""
        self.state.now_s = self.now_s
        decisions.stand_still(self.state, self.alive)
        self._commit()

    def _commit(self) -> None:
        change = self.state.take_change()
        if not change.is_empty:
            with Session(self.engine) as session, session.begin():
                records.save(session, self.state, change)
        self._deliver()

    def _grant(self) -> None:
        if trainer_lease.is_hopeless(self.state.lease, self.state.learning.ops.answered):
            return
        if not trainer_lease.has_room(self.state, self.alive(WorkerRole.TRAINER)):
            return
        (trainer,) = self.alive(WorkerRole.TRAINER)
        job.send(self.state)
        trainer_lease.grant(self.state, trainer.worker)
        change = self.state.take_change()
        with Session(self.engine) as session, session.begin():
            records.save_grant(session, self.state, change)
        self._deliver()

    def _deliver(self) -> None:
        """Empty the outbox into the world. This is after every decision, so it is the least that asks a store."""
        with closing(self.engine.raw_connection()) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT address_kind, body FROM outbox ORDER BY id")
            if rows := cursor.fetchall():
                cursor.execute("DELETE FROM outbox")
                connection.commit()
        for address_kind, body in rows:
            for item in decode(body).items:
                self._receive(address_kind, item)

    def _receive(self, address_kind: str, item: Item) -> None:
        match item:
            case StartEpisode() | Generate():
                self.episodes.append(item)
            case EpisodeEnded():
                assert address_kind == "stream"
                self.stream += [item] * self.rng.choice((1, 1, 1, 2))
            case Job():
                pass  # whoever takes it is in `_grant`
            case OpenModel() if self.trainer and self.trainer.epoch == item.epoch:
                done = OpDone(version=0, tokenizer=self.trainers_tokenizer)
                self._answer(0, done)  # it is open, and the same order came again
            case OpenModel():
                op, version = 0, 0
                if item.checkpoint_url is not None:
                    op, version = self.checkpoints[item.checkpoint_url]
                assert item.next_op in (op + 1, 1), "a checkpoint is of the op before"
                worker = WorkerId(f"trainer-{self.n_generations}")
                self.trainer = Trainer(worker, item.epoch, item.next_op, version)
                self.trainer.weights = self.weights_saved.get(item.checkpoint_url or "", "")
                note = self.notes[item.checkpoint_url] if item.checkpoint_url else None
                done = OpDone(version=version, note=note, tokenizer=self.trainers_tokenizer)
                self._answer(0, done)
            case Op():
                if self.trainer is not None and item.epoch == self.trainer.epoch:
                    self._take_op(self.trainer, item)
            case RunEvent():
                assert address_kind == "stream"
                _check_tags(item)
                self.events.append(item)
            case EpisodeCancelled():
                self.cancelled.append(item)
            case RunEnded() | CloseModel():
                self.endings.append(item)
                if isinstance(item, CloseModel) and not self.state.is_over and self.trainer:
                    self.trainer = None if self.trainer.epoch <= item.epoch else self.trainer
            case RunChanged():
                self._look_for_requests()
            case _:
                raise AssertionError(f"unexpected {item.kind}")

    def _look_for_requests(self) -> None:
        """As the coordinator does, of what these tests change."""
        state = self.state
        with Session(self.engine) as session:
            requests = records.requests_of(session, self.run, state.limits_number)
        state.observed.served = requests.served
        if requests.limits is not None:
            state.take_limits(requests.limits, requests.limits_number)

    def _take_op(self, trainer: Trainer, op: Op) -> None:
        """One that was applied is answered again; another one under its number shows how far we are."""
        if op.number >= trainer.next_op:
            trainer.waiting[op.number] = op
        elif (known := trainer.answered.get(op.number)) is None or known[0] != op.envelope.id:
            self.applied.clear()  # the log goes another way than we did
            reason = "another op was applied under this number"
            self._answer(op.number, OpFailed(reason=reason, ahead_version=trainer.version), op)
        else:
            self._answer(op.number, known[1], op)

    def _answer(self, number: int, outcome: OpDone | OpFailed, op: Op | None = None) -> None:
        assert self.trainer is not None
        result = OpResult(
            envelope=Envelope(run=self.run),
            model=self.model,
            epoch=self.trainer.epoch,
            number=number,
            op=op.envelope.id if op else None,
            outcome=outcome,
        )
        self.answers += [result] * self.rng.choice((1, 1, 2))

    def train(self) -> None:
        """The trainer applies the next op, if it has come."""
        trainer = self.trainer
        if trainer is None or (op := trainer.waiting.pop(trainer.next_op, None)) is None:
            return
        trainer.next_op += 1
        if op.number in self.applied:
            assert self.applied[op.number].body.model_dump_json() == op.body.model_dump_json()
        self.applied[op.number] = op
        outcome = self._apply(trainer, op)
        trainer.answered[op.number] = (op.envelope.id, outcome)
        self._answer(op.number, outcome, op)

    def _apply(self, trainer: Trainer, op: Op) -> OpDone:
        if isinstance(op.body, ForwardBackward | OptimStep):
            trainer.weights = weights_after(trainer.weights, op.body)
        match op.body:
            case OptimStep():
                trainer.version += 1
                return OpDone(version=trainer.version, metrics={"grad_norm": 1.0})
            case PublishPolicy():
                url = f"mem://v{trainer.version}"
                self.published[trainer.version] = url
                self._keep(trainer.version, op.body)
                self.weights_published.setdefault(trainer.version, set()).add(trainer.weights)
                policy = Policy(version=trainer.version, url=url, size_bytes=1)
                return OpDone(version=trainer.version, policy=policy)
            case SaveState(name=name):
                older = [
                    o for o in self.checkpoints if checkpoint_order(o) < checkpoint_order(name)
                ]
                for other in older:
                    if op.body.keep is not None and other not in op.body.keep:
                        del self.checkpoints[other]
                self.notes[name] = op.body.note
                self.checkpoints[name] = (op.number, trainer.version)
                self.weights_saved[name] = trainer.weights
                return OpDone(version=trainer.version, checkpoint_url=name)
            case ForwardBackward():
                return OpDone(version=trainer.version, metrics={"loss:sum": 0.5})
            case Forward():
                return OpDone(version=trainer.version, metrics=loss_at(trainer.weights, op.body))
            case _:
                return OpDone(version=trainer.version)

    def _keep(self, version: int, op: PublishPolicy) -> None:
        """As trainers do it, whichever of them published the others."""
        self.kept.add(version)
        reached = sorted(v for v in self.kept if v <= version)
        self.kept -= set(reached[:-KEEP_POLICIES]) - set(op.keep)

    @property
    def listed_checkpoints(self) -> set[str]:
        """What people are told that there is."""
        with Session(self.engine) as session:
            return {row.url for row in session.exec(select(Checkpoint))}

    @property
    def error(self) -> str:
        """Why the run failed."""
        with Session(self.engine) as session:
            return session.get_one(Run, self.run).error or ""

    @property
    def step_shown(self) -> tuple[int, int]:
        """What people are told: so many steps of so many."""
        with Session(self.engine) as session:
            run = session.get_one(Run, self.run)
            return run.step, run.n_steps

    def lose_model(self) -> None:
        """The trainer's child dies of it; the worker lives on without the model."""
        self.trainer = None

    def kill_trainer(self) -> None:
        self.trainer = None
        self.n_generations += 1
        self.now_s += 2 * trainer_lease.SILENCE_S

    def finish_episode(self) -> None:
        """Some episode in flight ends, sometimes with a duplicate."""
        if not self.episodes:
            return
        if (chosen := self.choose_episode()) is None:
            return
        item = self.episodes.pop(chosen)
        policy = item.spec.policy
        if policy.pinned and policy.url is not None:
            assert policy.url == f"mem://v{policy.min_version}"
            assert policy.min_version in self.kept, "samplers can't have it any more"
        ended = _end(
            item, self._outcome(item.spec.purpose), self.rng, max(self.published, default=0)
        )
        transcript = ended.transcript.model_copy(update={"tokenizer": self.tokenizer})
        ended = ended.model_copy(update={"transcript": transcript})
        self.stream += [ended] * self.rng.choice((1, 1, 1, 2))

    def choose_episode(self) -> int | None:
        """Which of those in flight ends next; None: none of them does yet."""
        return self.rng.randrange(len(self.episodes))

    def lose_episode(self) -> None:
        """An episode vanishes, if there is one; the deadlines of those lost come nearer."""
        if self.episodes:
            self.episodes.pop(self.rng.randrange(len(self.episodes)))
        self.now_s += self.config.limits.episode_s / 4

    def _outcome(self, purpose: EpisodePurpose) -> Completed | Failed:
        if purpose is self.failing or self.rng.random() < self.failure_rate:
            return Failed(kind=FailureKind.ENVIRONMENT_ERROR, reason="it broke")
        return Completed(reward=self.rng.choice(self.rewards), metrics={"exact": 1.0})

    def read_mail(self) -> None:
        """The coordinator reads some of what has come."""
        n = self.rng.randint(0, 5)
        for offset in range(self.n_read, min(self.n_read + n, len(self.stream))):
            decisions.absorb_ending(self.state, self.stream[offset], Position(offset))
            self.state.rollouts.stream_offset = offset + 1
            self.n_read = offset + 1
        for _ in range(min(n, len(self.answers))):
            answering.absorb_answer(self.state, self.answers.pop(0))
        self.decide()

    def move(self) -> None:
        """One thing happens."""
        moves = (self.finish_episode, self.finish_episode, self.train, self.read_mail)
        self.rng.choice(moves)()

    def drive(self, chaos: float) -> CoordinatorState:
        """Move until the run is over."""
        self.decide()
        for _ in range(MOST_MOVES):
            if self.state.is_over:
                return self.state
            if self.rng.random() < chaos:
                self.rng.choice((self.load, self.kill_trainer, self.lose_episode))()
            self.move()
        raise AssertionError(f"not over after {MOST_MOVES} moves: {self.state}")

    @property
    def trained_episodes(self) -> Counter[int]:
        """How often each sampled sequence (marked by its first token) is in the op log."""
        seen: Counter[int] = Counter()
        for op in self.applied.values():
            if isinstance(op.body, ForwardBackward):
                batch = op.body.batch
                starts = np.concatenate([[0], np.cumsum(batch.lengths_B)[:-1]])
                seen.update(int(mark) for mark in batch.ids_N[starts])
        return seen


@dataclass
class ReplayWorld(World):
    """A world whose run replays what another world's run recorded."""

    recorded: list[EpisodeEnded] = field(default_factory=list[EpisodeEnded])
    others: dict[RunId, list[EpisodeEnded]] = field(default_factory=dict[RunId, list[EpisodeEnded]])
    """What further runs in the same store recorded, if it replays them too."""
    n_visible: int = 0
    """How much of the recording is there yet."""
    is_recorder_going: bool = False
    files: Files | None = None
    """Which are replayed, and no stream."""
    reading: Iterator[Message] | None = None
    """Of the files, as its coordinator holds it: to open them again for each message takes most of a replay."""
    reads_on_at: int = 0
    """Where `reading` stands."""
    counted: dict[tuple[RunId, int], Counted] = field(
        default_factory=dict[tuple[RunId, int], Counted]
    )
    """What was asked of the store, by recorder and offset."""
    ends: dict[str, int | None] = field(default_factory=dict[str, int | None])
    """Likewise, by recording."""

    @classmethod
    def of(cls, world: World, rng: random.Random, **changes: Any) -> "ReplayWorld":
        """In the same store; with the recorder's config but for `changes`."""
        wanted = world.config.model_dump(mode="json")
        wanted["source"] = {"kind": "recorded", "run": RUN}
        for key, change in changes.items():
            wanted[key] = wanted[key] | change if isinstance(change, dict) else change
        source = RecordedSource.model_validate(wanted.pop("source"))
        replay = TrainConfig.model_validate(wanted).for_replay(source)
        return cls(
            replay, rng, engine=copied(world.engine), run=REPLAY, model=NEW_MODEL,
            recorded=world.stream, n_visible=len(world.stream), now_s=world.now_s,
        )  # fmt: skip

    def load(self) -> None:
        """The next coordinator opens the files itself."""
        self.reading = None
        super().load()

    def lose_episode(self) -> None:
        """Where nobody plays, time passes as in the world that recorded."""
        if self.state.uses_environments:
            super().lose_episode()
        else:
            self.now_s += EPISODE_S / 4

    @property
    def source(self) -> Recorded:
        assert isinstance(self.state.source, Recorded)
        return self.state.source

    def read_mail(self) -> None:
        """As its coordinator does it: one message, if one is wanted."""
        recording = self.source.recording
        if self.files is not None:
            self._read_files(self.files, recording)
            return super().read_mail()
        stream = self.others.get(recording.recorder, self.recorded[: self.n_visible])
        recording.end_offset = None if self.is_recorder_going else self._end()
        start = recording.read_from if isinstance(recording.read_from, int) else 0
        if self.source.wants_more(self.state) and start < len(stream):
            items = [stream[start]]
            counted = self._counted(recording.recorder, items, start)
            decisions.absorb_recorded(self.state, Message.of(items, start, counted))
        super().read_mail()

    def _read_files(self, files: Files, recording: Recording) -> None:
        if self.source.wants_more(self.state):
            assert recording.end_offset is not None and isinstance(recording.read_from, int)
            if self.reading is None or self.reads_on_at != recording.read_from:
                self.reading = files.messages(recording.read_from)
            message = next(self.reading, Message(recording.end_offset - 1))
            self.reads_on_at = message.offset + 1
            decisions.absorb_recorded(self.state, message)

    def _counted(self, recorder: RunId, items: list[EpisodeEnded], start: int) -> Counted:
        """The recorder has ended, so no answer changes."""
        if (recorder, start) not in self.counted:
            with Session(self.engine) as session:
                counted = counted_places(session, recorder, items, start)
            assert counted is not None
            self.counted[recorder, start] = counted
        return self.counted[recorder, start]

    def _end(self) -> int | None:
        recording = self.source.recording
        known = f"{recording.recorder} {recording.origin} {recording.start}"
        if known not in self.ends:
            with Session(self.engine) as session:
                self.ends[known] = records.end_of_recording(session, recording)
        return self.ends[known]


def loss_at(weights: str, op: Forward) -> dict[str, float]:
    """What stands for the loss of these weights over the batch."""
    n_tokens = float(op.batch.mask_N.sum())
    return {"loss:sum": n_tokens * int(weights[:8], 16) / 2**32, "tokens:sum": n_tokens}


def weights_after(weights: str, op: ForwardBackward | OptimStep) -> str:
    return hashlib.sha256((weights + op.model_dump_json()).encode()).hexdigest()


def copied(engine: Engine) -> Engine:
    """Another store with the same rows."""
    copy = create_engine("sqlite://")
    with engine.connect() as theirs, copy.connect() as ours:
        theirs.connection.backup(ours.connection.dbapi_connection)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
    return copy


_MASK = SamplingMask.none(1).extended(
    0, SamplingMask.of([np.array([7], np.int32), np.arange(MAX_KEPT, dtype=np.int32)])
)
"""Of an episode that was sampled with top-p: the second token from as many as there may be."""
_marks = iter(range(1, 1_000_000_000))


def _end(
    item: Started, outcome: Completed | Failed, rng: random.Random, newest_version: int
) -> EpisodeEnded:
    demonstrated = item.spec.purpose is EpisodePurpose.DEMONSTRATE
    version = item.spec.policy.min_version
    newer = min(version + rng.choice((0, 0, 1)), max(version, newest_version))
    if item.spec.policy.pinned:
        newer = version
    tokens = Tokens(
        ids_T=np.array([next(_marks), 7, 8], np.int32),
        mask_T=np.array([0, 1, 1], np.uint8),
        logprobs_T=np.array([0.0, -0.5, 0.0 if demonstrated else -0.25], np.float32),
        versions_T=np.array([-1, version, newer], np.int32),
        sampling_mask=_MASK if item.spec.sampling.is_truncated and not demonstrated else None,
    )
    transcript = Transcript(
        messages=(
            ChatMessage(role="user", content="?"),
            ChatMessage(role="assistant", content="7"),
        ),
        tokens=tokens,
        turns=(Turn(reward=1.0, digest="d"),),
    )
    return EpisodeEnded(
        envelope=item.envelope, spec=item.spec, transcript=transcript, outcome=outcome,
        worker="env", started_s=1.0, ended_s=2.0,
    )  # fmt: skip


def check_counts(groups: OpenGroups) -> None:
    """What is counted as things happen is what counting anew finds."""
    in_flight = Counter[int]()
    for group in groups.values():
        in_flight[group.environment] += group.n_missing
    assert in_flight == groups.in_flight
    deadlines = (group.deadline_s for group in groups.values() if not group.is_complete)
    assert groups.next_deadline_s() == min(deadlines, default=None)


def _check_tags(event: RunEvent) -> None:
    """Whatever a run reports is explained in docs/metrics.md."""
    if isinstance(event.body, StepCompleted | EvaluationCompleted):
        unknown = [tag for tag in tagged(event.body) if find(tag) is None]
        assert not unknown, f"no line in warren_schemas.metrics for {unknown}"


@cache
def _beat(
    worker: str, role: WorkerRole, *offers: str, held: tuple[ModelId, int] | None = None
) -> Heartbeat:
    """Nothing changes one, and worlds hear the same at every decision: it is made once. `held` is of a model, and the epoch."""
    models = (HeldModel(model=held[0], epoch=held[1]),) if held else ()
    return Heartbeat(
        envelope=Envelope(), worker=WorkerId(worker), role=role, offers=offers, interval_s=2.0,
        capacity=8, in_flight=0, models=models,
    )  # fmt: skip
