"""What starts an episode: its task, seed, policy and sampling, all from the run's config; and what ends one at once, of a recorded
episode that is evaluated and that nobody plays.

Invariants
- Attempts of one member differ in number, deadline and policy version, and in nothing else.
- What is told of a member is what was recorded of it: its transcript, and its reward or its failure.
- It counts once it was read in the run's own stream, like any other ending: so it has a place there, and what is told twice
  counts once.
- What is to be scored anew is told by env workers alone; where none could, it fails, and never has the reward that was recorded.
"""

import hashlib
import math
from collections.abc import Iterable

from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.rows import with_row
from warren_gateway.runs.ownership import played_by
from warren_gateway.runs.streams import recording
from warren_schemas.config import EnvironmentConfig, Sampling, SplitConfig, TrainConfig
from warren_schemas.envelope import Envelope
from warren_schemas.episode import (
    Completed,
    EpisodeEnded,
    EpisodePurpose,
    EpisodeSpec,
    Failed,
    FailureKind,
    FinishReason,
    PolicyRef,
    StartEpisode,
    Step,
    TaskRef,
)
from warren_schemas.transcript import Transcript

RECOVERIES = 3
"""How often an episode may be rebuilt on another env worker; one that keeps losing them may be what kills them."""


def start_item(
    state: CoordinatorState, group: Group, environment: EnvironmentConfig, member: int
) -> StartEpisode:
    """The message that starts this member's next attempt."""
    return StartEpisode(
        envelope=_envelope(state, group, member),
        spec=EpisodeSpec(
            group=group.id,
            member=member,
            purpose=group.purpose,
            environment=environment.name,
            environment_number=group.environment,
            run_owner=state.owner,
            owner=played_by(environment, state.owner),
            environment_config=environment.config,
            task=_task(state, group, environment),
            seed=seed_of(state.config.seed, group),
            policy=policy(state, group.purpose),
            sampling=_sampling(state, environment, group.purpose),
            max_turns=environment.max_turns,
            rewards=environment.parts,
            group_parts=environment.group_parts,
            reward_rules=environment.reward_rules,
            tool_format=environment.tool_format,
            secrets=_secrets(state.config, environment),
            n_recoveries_left=RECOVERIES if environment.recover == "replay" else 0,
        ),
    )


def scoring_item(
    state: CoordinatorState, group: Group, environment: EnvironmentConfig, member: int
) -> Step:
    """The message that has a recorded episode played through once more: by the actions, the task, the seed and the limits
    that are recorded, in the environment that this run's config describes."""
    assert group.scores is not None
    recorded = group.scores.ended[member]
    transcript = unanswered(recorded.transcript)
    assert transcript is not None and isinstance(recorded.outcome, Completed)
    is_cut = recorded.transcript.turns[-1].is_cut
    return Step(
        envelope=_envelope(state, group, member),
        spec=_spec_to_score(state, group, environment, recorded),
        transcript=transcript,
        turn=len(recorded.transcript.turns),
        finish=FinishReason.LENGTH if is_cut else FinishReason.STOP,
        recorded_stop=recorded.outcome.stop,
    )


def _spec_to_score(
    state: CoordinatorState, group: Group, environment: EnvironmentConfig, recorded: EpisodeEnded
) -> EpisodeSpec:
    changes = {
        "group": group.id,
        "purpose": group.purpose,
        "environment_number": group.environment,
        "run_owner": state.owner,
        "owner": played_by(environment, state.owner),
        "environment_config": environment.config,
        "rewards": environment.parts,
        "group_parts": environment.group_parts,
        "reward_rules": environment.reward_rules,
        "secrets": _secrets(state.config, environment),
        "n_recoveries_left": RECOVERIES,
    }
    return recorded.spec.model_copy(update=changes)


def unanswered(transcript: Transcript) -> Transcript | None:
    """A whole transcript as it was when its last action came, and without rewards; None where that can't be told."""
    if not transcript.turns:
        return None
    last, said_in = transcript.turns[-1].branch, {turn.branch for turn in transcript.turns}
    branch = next((b for b in transcript.branches if b.number == last), None)
    if branch is None:
        return None
    n_kept = max(
        (n for n, message in enumerate(branch.messages, 1) if message.is_action), default=0
    )
    others = [b for b in transcript.branches if b.number != last and b.number in said_in]
    turns = [turn.model_copy(update={"reward": None, "metrics": {}}) for turn in transcript.turns]
    changes = {
        "messages": branch.messages[:n_kept],
        "n_rendered": min(branch.n_rendered, n_kept),
        "tokens": branch.tokens,
        "turns": tuple(turns[:-1]),
        "branch": last,
        "set_aside": tuple(others),
    }
    found = transcript.model_copy(update=changes)
    n_actions = sum(m.is_action for b in found.branches for m in b.messages)
    return found if n_actions == len(found.actions) == len(turns) else None


def _envelope(state: CoordinatorState, group: Group, member: int) -> Envelope:
    return Envelope(
        run=state.run,
        episode=group.episode(member),
        attempt=group.attempts[member],
        deadline_s=group.deadline_s,
    )


def _secrets(config: TrainConfig, environment: EnvironmentConfig) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*config.secrets, *environment.secrets)))


def _task(state: CoordinatorState, group: Group, environment: EnvironmentConfig) -> TaskRef:
    name = _split(environment, group.purpose)
    split = environment.splits.get(name, SplitConfig())
    task = TaskRef(
        split=name,
        index=group.task.index,
        order_seed=state.config.seed,
        shuffle=split.shuffle,
        num_samples=split.num_samples,
        task_ids=split.task_ids,
        level=group.task.level,
    )
    if environment.dataset is None:
        return task
    return with_row(task, state.rows[environment.dataset][name])


def episode_s(config: TrainConfig, environment: int) -> float:
    """How long an episode may take."""
    return config.environment_of(environment).episode_s or config.limits.episode_s


def deadline_s(state: CoordinatorState, environment: int) -> float:
    """When an episode that starts now is late; what nobody plays never is."""
    if not state.uses_environments:
        return math.inf
    return state.now_s + episode_s(state.config, environment)


def policy(state: CoordinatorState, purpose: EpisodePurpose) -> PolicyRef:
    """Which version plays."""
    evaluation = state.rollouts.evaluation
    if purpose is EpisodePurpose.EVALUATE and evaluation is not None:
        version, url, pinned = evaluation.version, evaluation.policy_url, True
    else:
        version, url, pinned = state.learning.policy.version, state.learning.policy.url, False
    return PolicyRef(
        model=state.model,
        base_model=state.spec.base_model,
        min_version=version,
        url=url,
        pinned=pinned,
    )


def _sampling(
    state: CoordinatorState, environment: EnvironmentConfig, purpose: EpisodePurpose
) -> Sampling:
    sampling = environment.sampling.applied_to(state.config.sampling)
    if purpose is EpisodePurpose.EVALUATE and state.config.evaluation:
        temperature = state.config.evaluation.temperature
        return sampling.model_copy(update={"temperature": temperature})
    return sampling


def _split(environment: EnvironmentConfig, purpose: EpisodePurpose) -> str:
    if purpose is EpisodePurpose.EVALUATE and environment.evaluation_split:
        return environment.evaluation_split
    return environment.split


def seed_of(run_seed: int, group: Group) -> int:
    """The same for all members of a group, and for the same task of the same run config."""
    what = f"{run_seed}/{group.purpose}/{group.environment}/{group.task.index}"
    return int.from_bytes(hashlib.blake2b(what.encode(), digest_size=7).digest())


def evaluation_number(state: CoordinatorState, purpose: EpisodePurpose) -> int | None:
    """Of the evaluation that an episode is for; None in training."""
    evaluation = state.rollouts.evaluation
    return evaluation.number if evaluation and purpose is EpisodePurpose.EVALUATE else None


def tell(state: CoordinatorState, group: Group, members: Iterable[int]) -> list[int]:
    """End the members of which nothing is to be played; those that are left."""
    if group.scores is None or group.purpose is not EpisodePurpose.EVALUATE:
        return list(members)
    members = list(members)
    told = {member: _ending(state, group, group.scores, member) for member in members}
    endings = [ending for ending in told.values() if ending is not None]
    if endings:
        state.change.send(recording(state.run, state.config), *endings)
    return [member for member in members if told[member] is None]


def why_not(state: CoordinatorState, recorded: Group, item: EpisodeEnded) -> Failed | None:
    """Why an episode can't be played through once more, as far as that is known before."""
    environment, kind = item.spec.environment, FailureKind.NOT_REPLAYABLE
    if environment != state.config.environment_of(recorded.environment).name:
        kind = FailureKind.UNKNOWN_ENVIRONMENT
        what = f"the replay names no environment {environment}"
    elif unanswered(item.transcript) is None:
        what = "its actions can't be told apart"
    else:
        return None
    return Failed(kind=kind, reason=f"it can't be scored anew: {what}", retryable=False)


def _ending(
    state: CoordinatorState, group: Group, recorded: Group, member: int
) -> EpisodeEnded | None:
    """None where an env worker is to say how it ends."""
    if (item := recorded.ended.get(member)) is None:
        return _told(state, group, recorded.provenance.lost[member], member)
    if not state.config.is_scored:
        return _told(state, group, item, member)
    failure = why_not(state, recorded, item)
    return failure and _told(state, group, item.model_copy(update={"outcome": failure}), member)


def _told(state: CoordinatorState, group: Group, item: EpisodeEnded, member: int) -> EpisodeEnded:
    """As the end of this member's attempt; nobody tries again what failed, or compares what was compared."""
    spec = {
        "group": group.id,
        "member": member,
        "purpose": group.purpose,
        "environment_number": group.environment,
        "group_parts": (),
    }
    outcome = item.outcome
    if isinstance(outcome, Failed):
        outcome = outcome.model_copy(update={"retryable": False})
    changes = {
        "envelope": Envelope(
            run=state.run, episode=group.episode(member), attempt=group.attempts[member]
        ),
        "spec": item.spec.model_copy(update=spec),
        "outcome": outcome,
        "compared_by": None,
        "uncompared": None,
    }
    return item.model_copy(update=changes)
