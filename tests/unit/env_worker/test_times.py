"""Where an episode's seconds went travels with its transcript, from turn to turn and worker to worker."""

from dataclasses import replace

import numpy as np
from tests.support.episodes import first_turn, policy

from warren_env_worker.host.protocol import Message, Observed
from warren_env_worker.interaction import Interaction
from warren_env_worker.successor import Origin, follow
from warren_gpu_worker.sampler.messages import FinishedTurn
from warren_gpu_worker.sampler.supervisor.transcripts import extended
from warren_schemas.episode import (
    Completed,
    EpisodeEnded,
    FinishReason,
    Generate,
    StartEpisode,
    Step,
    StopReason,
)
from warren_schemas.episode_times import EpisodeTimes
from warren_schemas.ids import WorkerId

BY = Origin(WorkerId("env_1"), 0.0, waited_s=0.5, call_s=2.0)
SHOWN: tuple[Message, ...] = (("user", "?"),)
ONE_T = np.zeros(1, np.int32)
TURN = FinishedTurn(
    1, ONE_T, ONE_T, ONE_T.astype(np.float32), ONE_T, "a", FinishReason.STOP, tokenizer="abc"
)


def asked() -> Generate:
    turn = first_turn(policy("warren/tiny"))
    start = StartEpisode(envelope=turn.envelope, spec=turn.spec)
    item = follow(start, Observed(1, messages=SHOWN, digest="d"), BY).item
    assert isinstance(item, Generate)
    return item


def answered(item: Generate, *, finish: FinishReason = FinishReason.STOP) -> Step:
    turn = replace(TURN, finish=finish, sampling_s=1.0)
    return Step(
        envelope=item.envelope,
        spec=item.spec,
        transcript=extended(item.transcript, turn),
        turn=item.turn + 1,
        finish=finish,
    )


def test_each_part_adds_up_over_the_turns() -> None:
    item = asked()
    assert item.transcript.times == EpisodeTimes(reset_s=2.0)
    for _ in range(3):
        goes_on = Observed(1, messages=SHOWN, digest="d", reward=0.0)
        following = follow(answered(item), goes_on, BY).item
        assert isinstance(following, Generate)
        item = following
    assert item.transcript.times == EpisodeTimes(
        reset_s=2.0, sampler_wait_s=1.5, sampling_s=3.0, step_s=6.0
    )


def test_making_an_environment_anew_is_no_step() -> None:
    step = answered(asked())
    moved = replace(BY, waited_s=0.0, is_rebuilt=True)
    item = follow(step, Observed(1, messages=SHOWN, digest="d"), moved).item
    assert item.transcript.times == EpisodeTimes(reset_s=4.0, sampling_s=1.0)


def test_who_waits_counts_the_wait_without_the_sampling() -> None:
    step = answered(asked())
    interaction = Interaction.begin(StartEpisode(envelope=step.envelope, spec=step.spec), 0)
    interaction.successor = follow(interaction.taken, Observed(1, messages=SHOWN, digest="d"), BY)
    interaction.answered_s = -1e9  # long ago
    interaction.advance(step)
    assert interaction.waited_s >= 1e9 - 1.0
    assert not interaction.is_rebuilt
    assert Interaction.begin(step, 0).is_rebuilt and Interaction.begin(step, 0).waited_s == 0.0


def test_why_an_episode_ended_and_which_turns_were_cut_is_kept() -> None:
    cut = answered(asked(), finish=FinishReason.LENGTH)
    of_two = cut.model_copy(update={"spec": cut.spec.model_copy(update={"max_turns": 2})})
    over = Observed(1, messages=SHOWN, digest="d", reward=1.0, is_over=True)
    found = {
        "done": (of_two, over),
        "truncated": (of_two, replace(over, is_truncated=True)),
        "max_turns": (
            cut.model_copy(update={"spec": cut.spec.model_copy(update={"max_turns": 1})}),
            replace(over, is_truncated=True),
        ),
    }
    for reason, (step, observed) in found.items():
        item = follow(step, observed, BY).item
        assert isinstance(item, EpisodeEnded) and isinstance(item.outcome, Completed)
        assert item.outcome.stop is StopReason(reason)
        assert [turn.is_cut for turn in item.transcript.turns] == [True]
        assert item.transcript.tokenizer == "abc"
