"""What the worker asks of an environment, told so that a fresh process can answer it as well."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

from warren.environment import ConfigError
from warren_env_worker.host.protocol import Answer, Call, Row, Start
from warren_env_worker.host.refusal import config_refusal, in_its_own_words
from warren_env_worker.host.sampled import sampled_of
from warren_env_worker.permissions.granting import Granted, granted
from warren_env_worker.permissions.sealed import Sealed
from warren_schemas.episode import EpisodePurpose, EpisodeSpec
from warren_schemas.operator_policy import OperatorPolicy
from warren_schemas.transcript import Transcript


@dataclass(slots=True)
class Request:
    """The first observation of an episode if `transcript` is None, else what follows from it.

    `answer` is called once, from the event loop, and must not raise.
    """

    slot: int
    spec: EpisodeSpec
    transcript: Transcript | None
    answer: Callable[[Answer], None]

    @property
    def begins(self) -> bool:
        """It makes a task, which no transcript holds yet."""
        return self.transcript is None

    @property
    def method(self) -> str:
        return "reset()" if self.begins else "step()"

    is_cut: bool = False
    """The last action was."""
    is_scored: bool = False
    """The rewards of all actions are asked for."""
    lists_ids: bool = False
    """The ids of all tasks of its split are asked for, with its beginning."""
    n_losses: int = 0
    """How often the process of its episode was lost, and nothing else of the child."""

    def live_call(self, call: int, *, sees_tokens: bool) -> Call:
        """For a process that holds the episode."""
        assert self.transcript is not None
        sampled = sampled_of(self.transcript, is_cut=self.is_cut)[-1:] if sees_tokens else ()
        words = self.transcript.messages[-1].content
        return Call(call, self.slot, actions=(words,), sampled=sampled)

    def whole_call(self, call: int, policy: OperatorPolicy, *, sees_tokens: bool) -> Call:
        """For a process that does not: from the start, by replay. Raises `Refusal` for what it may not
        have."""
        start = self.start(policy)
        if self.transcript is None:
            return Call(call, self.slot, start)
        digests = (self.transcript.reset_digest, *(turn.digest for turn in self.transcript.turns))
        sampled = sampled_of(self.transcript, is_cut=self.is_cut) if sees_tokens else ()
        actions, is_scored = self.transcript.actions, self.is_scored
        return Call(call, self.slot, start, actions, sampled, digests, is_scored=is_scored)

    def start(self, policy: OperatorPolicy) -> Start:
        """Raises `Refusal` for what it may not have."""
        try:
            return start_of(self.spec, granted(policy, self.spec), lists_ids=self.lists_ids)
        except ConfigError as error:
            raise config_refusal(in_its_own_words(error)) from error


@dataclass(slots=True)
class GroupRequest(Request):
    """What the episodes of a group are worth beside each other; `spec` is that of one of them."""

    group: str = ""
    """As of a `Call`."""

    @property
    def begins(self) -> bool:
        return False

    @property
    def method(self) -> str:
        return "score_group()"

    def whole_call(self, call: int, policy: OperatorPolicy, *, sees_tokens: bool) -> Call:
        return Call(call, self.slot, self.start(policy), group=self.group)


def start_of(spec: EpisodeSpec, has: Granted, *, lists_ids: bool = False) -> Start:
    row = spec.task.row
    return Start(
        config=dict(deepcopy(spec.environment_config)),  # the spec is everybody's
        seed=spec.seed,
        member=spec.member,
        max_turns=spec.max_turns,
        split=spec.task.split,
        index=spec.task.index,
        order_seed=spec.task.order_seed,
        shuffle=spec.task.shuffle,
        num_samples=spec.task.num_samples,
        task_ids=spec.task.task_ids,
        level=spec.task.level,
        demonstrates=spec.purpose is EpisodePurpose.DEMONSTRATE,
        tool_format=spec.tool_format,
        sealed=Sealed.of(has.secrets, has.permissions.values_of_keys),
        permissions=has.permissions.without_values(),
        lists_ids=lists_ids,
        row=None if row is None else Row(row.number, dict(row.values)),
        tag=f"{spec.group} member {spec.member}, {spec.task.split} {spec.task.index}",
    )
