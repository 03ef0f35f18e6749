"""A run in which everything is played by a few lines, and all of them are deterministic.

What an episode says depends on its spec alone, and there is no chance in the order of things: so two runs
differ in what their configs say, and in nothing else.
"""

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlmodel import Session, col, select
from tests.unit.coordinator.world import MODEL, N_ROWS, RUN, Started, World

from warren_gateway.coordinator import answering, decisions
from warren_gateway.position import Position
from warren_gateway.runs.submitting import model_row
from warren_gateway.store.tables import Checkpoint, GroupRow, Model, Run
from warren_schemas.envelope import Item
from warren_schemas.episode import (
    EpisodeEnded,
    EpisodePurpose,
    Failed,
    FailureKind,
    Generate,
    StartEpisode,
    StopReason,
)
from warren_schemas.group_scoring import GroupRewards, GroupScored, MemberReward, ScoreGroup
from warren_schemas.outcome import conclude
from warren_schemas.training import OpenModel
from warren_schemas.transcript import ChatMessage, Tokens, Transcript, Turn

MOST_ROUNDS = 60
ROUND_S = 10.0
WANTED_TURNS = 3
"""An episode that may have as many ends of itself."""


@dataclass
class PlayedWorld(World):
    failing_members: frozenset[int] = frozenset()
    """Members that fail in every attempt."""
    is_level: bool = False
    """Every turn of every episode gets the same reward."""
    is_idle: bool = False
    """No episode gets on, and time passes."""
    started: list[Any] = field(default_factory=list[Any])
    learned: list[Any] = field(default_factory=list[Any])
    """Messages of each that are learned, where it is a row."""
    to_compare: list[ScoreGroup] = field(default_factory=list[ScoreGroup])
    most_in_flight: int = 0
    opened: Any = None

    def __post_init__(self) -> None:
        if self.config.sft is not None and self.config.sft.dataset is not None:
            sft = self.config.sft.with_rows(
                N_ROWS, self.config.sft.dataset
            )  # as a submission does it
            self.config = self.config.model_copy(update={"sft": sft})
        config, dumped = self.config, self.config.model_dump(mode="json")
        with Session(self.engine) as session, session.begin():
            run = Run(
                id=self.run, owner="me", name=config.name, config=dumped, state="queued",
                n_steps=config.limits.steps, created_s=self.now_s,
            )  # fmt: skip
            session.add(run)
            session.flush()
            model = model_row(run, config, self.checkpoint_url, None)
            model.id = self.model
            session.add(model)
        self.load()

    def _receive(self, address_kind: str, item: Item) -> None:
        if isinstance(item, ScoreGroup):
            return self.to_compare.append(item)
        if isinstance(item, StartEpisode | Generate):
            spec = item.spec.model_dump(mode="json", exclude={"group"})
            left_s = (item.envelope.deadline_s or 0.0) - self.now_s
            learned = item.learned if isinstance(item, Generate) else None
            self.started.append((spec, item.envelope.attempt, left_s))
            self.learned.append(learned)
        if isinstance(item, OpenModel):
            self.opened = item.spec.model_dump(mode="json")
        super()._receive(address_kind, item)

    def finish_episode(self) -> None:
        item = self.episodes.pop(0)
        self.stream.append(played(item, self.failing_members, is_level=self.is_level))

    def read_mail(self) -> None:
        for offset in range(self.n_read, len(self.stream)):
            decisions.absorb_ending(self.state, self.stream[offset], Position(offset))
            self.state.rollouts.stream_offset = self.n_read = offset + 1
        asked, self.to_compare = self.to_compare, []
        for group in asked:
            answering.absorb_group(self.state, compared(group))
        answers, self.answers = self.answers, []
        for answer in answers:
            answering.absorb_answer(self.state, answer)
        self.decide()

    def play(self) -> "PlayedWorld":
        """Until the run is over, or for as many rounds as there may be."""
        self.decide()
        for _ in range(MOST_ROUNDS):
            if self.state.is_over:
                break
            self.most_in_flight = max(self.most_in_flight, len(self.episodes))
            self._round()
        return self

    def _round(self) -> None:
        self.now_s += ROUND_S if self.is_idle else 0.0
        while self.episodes and not self.is_idle:
            self.finish_episode()
        while self.trainer is not None and self.trainer.next_op in self.trainer.waiting:
            self.train()
        self.read_mail()

    @property
    def facts(self) -> dict[str, Any]:
        """What came of the run, by where it is seen."""
        bodies = [self.applied[number].body for number in sorted(self.applied)]
        return {
            "model": self.opened or self._spec(),
            "starts": self.started,
            "learned": self.learned,
            "flight": self.most_in_flight,
            "ops": [body.model_dump_json(exclude={"note"}) for body in bodies],
            "events": [event.body.model_dump(mode="json") for event in self.events],
            "checkpoints": self._checkpoints(),
            "groups": self._groups(),
        }

    def _spec(self) -> Any:
        with Session(self.engine) as session:
            return session.get_one(Model, self.model).spec

    def _checkpoints(self) -> list[Any]:
        with Session(self.engine) as session:
            rows = session.exec(select(Checkpoint).order_by(col(Checkpoint.op)))
            return [(row.name, row.reward) for row in rows]

    def _groups(self) -> list[Any]:
        with Session(self.engine) as session:
            rows = session.exec(select(GroupRow).order_by(col(GroupRow.number)))
            return [(row.environment, row.purpose, row.task_index, row.outcomes) for row in rows]


def compared(asked: ScoreGroup) -> GroupScored:
    members = tuple(MemberReward(member=each.member, reward=0.0) for each in asked.members)
    outcome = GroupRewards(members=members)
    return GroupScored(envelope=asked.envelope, spec=asked.spec, outcome=outcome, worker="env")


def played(item: Started, failing: frozenset[int], *, is_level: bool) -> EpisodeEnded:
    """What three turns of this episode would come to; the environment fails some members."""
    spec, chance = item.spec, random.Random(f"{item.spec.seed}/{item.spec.member}")
    n_turns = min(WANTED_TURNS, spec.max_turns)
    transcript = _transcript(spec.policy.min_version, n_turns, chance, is_level=is_level)
    is_done = n_turns == WANTED_TURNS
    outcome = conclude(spec, transcript, StopReason.DONE if is_done else StopReason.MAX_TURNS)
    if spec.member in failing and spec.purpose is EpisodePurpose.TRAIN:
        outcome = Failed(kind=FailureKind.ENVIRONMENT_ERROR, reason="it broke")
    return EpisodeEnded(
        envelope=item.envelope, spec=spec, transcript=transcript, outcome=outcome, worker="env",
        started_s=1.0, ended_s=2.0,
    )  # fmt: skip


def _transcript(version: int, n_turns: int, chance: random.Random, *, is_level: bool) -> Transcript:
    mask_T = np.array([0, 0, 1, 1, 1] * n_turns, np.uint8)
    ids = [chance.randint(3, 55) for _ in mask_T]
    unlikely = chance.uniform(0.5, 20.0)
    logprobs = [-unlikely * chance.uniform(0.8, 1.2) * m for m in mask_T.tolist()]
    rewards = [0.5 if is_level else chance.choice((-1.0, 0.0, 0.5, 2.0)) for _ in range(n_turns)]
    tokens = Tokens(
        ids_T=np.array(ids, np.int32),
        mask_T=mask_T,
        logprobs_T=np.array(logprobs, np.float32),
        versions_T=np.where(mask_T, version, -1).astype(np.int32),
    )
    said = [ChatMessage(role="user", content="?"), ChatMessage(role="assistant", content="7")]
    turns = tuple(Turn(reward=reward, digest="d") for reward in rewards)
    return Transcript(messages=tuple(said * n_turns), tokens=tokens, turns=turns)


__all__ = ["MODEL", "RUN", "PlayedWorld", "played"]
