"""The rubric of a run's config, applied to an episode that has ended: asked of its process, and what comes of it.

Invariants: an episode's transcript keeps what its environment gave until it is over, so that whoever rebuilds it applies
the rubric once, to the same rewards; what a rubric can't give is a typed failure, and never a 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Answer, Call, Observed, Refused
from warren_env_worker.host.request import Request
from warren_env_worker.rewards.scored import Scored
from warren_env_worker.successor import Successor
from warren_schemas.config import OwnReward, name_of
from warren_schemas.episode import (
    EpisodeEnded,
    EpisodePurpose,
    EpisodeSpec,
    Failed,
    FailureKind,
    StopReason,
    TaskRef,
)
from warren_schemas.operator_policy import OperatorPolicy
from warren_schemas.outcome import conclude
from warren_schemas.transcript import Transcript, Turn

REFERENCE = "warren_env_worker.rubric_environment:Rubric"
_TOLD_AS_THEY_ARE = (FailureKind.ENVIRONMENT_CONFIG, FailureKind.NO_REWARD)


class Rubrics:
    def __init__(self, host: Host) -> None:
        """`host` is that of `rubric_environment`."""
        self._host = host

    def apply(self, ended: Successor, told: Observed, done: Callable[[Successor], None]) -> None:
        """`done` is called once, with the end of the episode as the rubric rewards it; `told` was the environment's last
        answer."""
        item, stop = ended.item, ended.unrewarded
        assert isinstance(item, EpisodeEnded) and stop is not None
        scored = _scored(item, told)
        is_yet_to_come = scored.own_reward is None and item.uncompared is not None
        parts: list[JsonValue] = [
            part.model_dump(mode="json")
            for part in item.spec.rewards
            if not (is_yet_to_come and isinstance(part, OwnReward))
        ]

        def answered(answer: Answer) -> None:
            done(rewarded(ended, item, stop, answer))

        self.ask(item.spec, {"parts": parts}, scored.to_json(), answered)

    def ask(
        self,
        spec: EpisodeSpec,
        config: dict[str, JsonValue],
        action: str,
        answered: Callable[[Answer], None],
    ) -> None:
        """What the parts that this config names give for this action; `answered` is called once."""
        slot = self._host.open()

        def told(answer: Answer) -> None:
            self._host.close(slot)
            answered(answer)

        request = _RubricRequest(slot, _spec(spec, config), None, told, action=action)
        self._host.submit_request(request)


@dataclass(slots=True)
class _RubricRequest(Request):
    action: str = ""

    @property
    def method(self) -> str:
        return "a part of the reward"

    def whole_call(self, call: int, policy: OperatorPolicy, *, sees_tokens: bool) -> Call:
        return Call(call, self.slot, self.start(policy), (self.action,))


def own_part(spec: EpisodeSpec) -> tuple[float, str | None]:
    """By how much the environment's own reward counts, and the metric that tells it, where the config has a part for it."""
    if not spec.rewards:
        return 1.0, None
    own = [(n, part) for n, part in enumerate(spec.rewards) if isinstance(part, OwnReward)]
    name = next((f"reward/{name_of(part, n)}" for n, part in own), None)
    return sum(part.weight for _, part in own), name


def rewarded(ended: Successor, item: EpisodeEnded, stop: StopReason, answer: Answer) -> Successor:
    """The end with what the rubric gave, or with why it could not."""
    if isinstance(answer, Refused):
        return replace(
            ended, item=item.model_copy(update={"outcome": failed(answer)}), unrewarded=None
        )
    transcript = _with_parts(item.spec, item.transcript, answer)
    outcome = conclude(item.spec, transcript, stop)
    changes = {"transcript": transcript, "outcome": outcome}
    return replace(ended, item=item.model_copy(update=changes), unrewarded=None)


def failed(refused: Refused) -> Failed:
    """Why there is no reward."""
    kind = refused.kind if refused.kind in _TOLD_AS_THEY_ARE else FailureKind.REWARD_FAILED
    return Failed(kind=kind, reason=refused.reason, retryable=refused.is_retryable)


def _with_parts(spec: EpisodeSpec, transcript: Transcript, given: Observed) -> Transcript:
    """Each turn with its own reward times the weight of that, and the last one with what the others add up to."""
    weights = [part.weight for part in spec.rewards if isinstance(part, OwnReward)]
    turns = [_weighted(turn, weights) for turn in transcript.turns]
    last = turns[-1]
    if given.reward is not None:
        reward = given.reward if last.reward is None else last.reward + given.reward
        last = last.model_copy(update={"reward": reward})
    turns[-1] = last.model_copy(update={"metrics": last.metrics | given.metrics})
    return transcript.model_copy(update={"turns": tuple(turns)})


def _weighted(turn: Turn, weights: Sequence[float]) -> Turn:
    reward = None if turn.reward is None or not weights else turn.reward * sum(weights)
    return turn.model_copy(update={"reward": reward})


def _scored(item: EpisodeEnded, told: Observed) -> Scored:
    transcript = item.transcript
    given = [turn.reward for turn in transcript.turns if turn.reward is not None]
    return Scored(
        messages=transcript.messages,
        response=transcript.actions[-1],
        gold=told.gold,
        own_reward=sum(given) if given else None,
        data_source=told.data_source,
        metrics={name: value for turn in transcript.turns for name, value in turn.metrics.items()},
        run=item.envelope.run or "",
    )


def _spec(spec: EpisodeSpec, config: dict[str, JsonValue]) -> EpisodeSpec:
    """What starts the rubric: the same owner, who may reach the same, and nothing of the episode."""
    changes = {
        "environment_config": config,
        "task": TaskRef(index=0),
        "purpose": EpisodePurpose.TRAIN,
        "secrets": (),
        "max_turns": 1,
        "tool_format": None,
    }
    return spec.model_copy(update=changes)
