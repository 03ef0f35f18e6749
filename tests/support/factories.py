"""Small valid items of every kind, for tests that care about one field or about none.

Every `make_*` takes the fields that matter as keywords and fills in the rest; ids are fixed, so
what comes out is the same each time.
"""

from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel

from warren_schemas.config import GroupFunctionReward, LoraUpdate, PpoLoss, Sampling, TrainConfig
from warren_schemas.control import (
    DrainWorker,
    EpisodeCancelled,
    Heartbeat,
    HeartbeatsRequested,
    HeldModel,
    PolicyPublished,
    RequestsAnswered,
    RunChanged,
    RunEnded,
    WorkerRole,
)
from warren_schemas.envelope import Envelope, Item
from warren_schemas.episode import (
    Completed,
    EpisodeEnded,
    EpisodeSpec,
    Failed,
    FailureKind,
    FinishReason,
    Generate,
    PolicyRef,
    StartEpisode,
    Step,
    StopReason,
    TaskRef,
)
from warren_schemas.events import (
    EvaluationCompleted,
    LogComponent,
    LogLevel,
    LogLine,
    Phase,
    RunEvent,
    RunLogged,
    RunOutcome,
    RunState,
    StateChanged,
    StepCompleted,
    WaitingEnded,
    WaitingStarted,
    WarningRaised,
)
from warren_schemas.group_scoring import (
    GroupMember,
    GroupRewards,
    GroupScored,
    MemberReward,
    ScoreGroup,
)
from warren_schemas.ids import EpisodeId, GroupId, MessageId, ModelId, RunId, WorkerId
from warren_schemas.token_batch import TokenBatch
from warren_schemas.token_options import (
    ImagePlace,
    PromptLogprobs,
    PromptWithImages,
    Targets,
    TokenOptions,
)
from warren_schemas.training import (
    CloseModel,
    DeleteModel,
    ForwardBackward,
    Job,
    JobTaken,
    KeepForJob,
    LoadBaseModel,
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
)
from warren_schemas.transcript import ChatMessage, Tokens, Transcript, Turn

RUN = RunId("run_019aa3b7a1c04e5d90ab17ce21d3")
MODEL = ModelId("model_019aa3b7a1c04e5d90ab17ce21d3")
EPISODE = EpisodeId("ep_019aa3b7a1c04e5d90ab17ce21d3")
GROUP = GroupId("group_019aa3b7a1c04e5d90ab17ce21d3")
WORKER = WorkerId("env_019aa3b7a1c04e5d90ab17ce21d3")
MESSAGE = MessageId("msg_019aa3b7a1c04e5d90ab17ce21d3")
BASE_MODEL = "Qwen/Qwen3-0.6B"


ModelT = TypeVar("ModelT", bound=BaseModel)


def _make(schema: type[ModelT], changes: dict[str, Any], /, **defaults: Any) -> ModelT:
    return schema(**defaults | changes)


def make_config(**changes: Any) -> TrainConfig:
    config = {"model": {"base": BASE_MODEL}, "environments": [{"name": "guess"}], "seed": 1}
    return TrainConfig.model_validate(config | changes)


def make_envelope(**changes: Any) -> Envelope:
    return _make(Envelope, changes, id=MESSAGE, run=RUN, episode=EPISODE)


def make_spec(**changes: Any) -> EpisodeSpec:
    return _make(
        EpisodeSpec,
        changes,
        group=GROUP,
        member=1,
        environment="guess",
        environment_config={"high": 9},
        task=TaskRef(index=3),
        seed=7,
        policy=PolicyRef(model=MODEL, base_model=BASE_MODEL, min_version=2, url="file:///v2"),
        sampling=Sampling(stop=("\n",)),
        max_turns=4,
    )


def make_tokens(n_tokens: int = 6, **changes: Any) -> Tokens:
    """The second half is sampled, by version 2 and, the last token, by version 3."""
    position_T = np.arange(n_tokens)
    sampled_T = position_T >= n_tokens // 2
    version_T = np.where(position_T == n_tokens - 1, 3, 2)
    return _make(
        Tokens,
        changes,
        ids_T=(position_T * 17 % 151).astype(np.int32),
        mask_T=sampled_T.astype(np.uint8),
        logprobs_T=np.where(sampled_T, -0.25, 0.0).astype(np.float32),
        versions_T=np.where(sampled_T, version_T, -1).astype(np.int32),
    )


def make_transcript(n_tokens: int = 6, **changes: Any) -> Transcript:
    """One action that was taken and answered."""
    return _make(
        Transcript,
        changes,
        messages=(
            ChatMessage(role="user", content="Guess a number from 1 to 9."),
            ChatMessage(role="assistant", content="5"),
        ),
        n_rendered=2,
        tokens=make_tokens(n_tokens),
        reset_digest="d0",
        turns=(Turn(reward=0.5, digest="d1", metrics={"distance": 1.0}),),
    )


def make_start_episode(**changes: Any) -> StartEpisode:
    return _make(StartEpisode, changes, envelope=make_envelope(), spec=make_spec())


def make_generate(**changes: Any) -> Generate:
    return _make(
        Generate,
        changes,
        envelope=make_envelope(),
        spec=make_spec(),
        transcript=make_transcript(),
        turn=1,
        home=WORKER,
    )


def make_token_options() -> TokenOptions:
    """Of a prompt with an image, and of tokens that are not in it."""
    return TokenOptions(
        n_drawn_prompt=2,
        targets=Targets(
            n_tokens=9,
            places_S=np.array([1, 8, 8], np.int32),
            target_ids_S=np.array([5, 0, 7], np.int32),
        ),
        prompt=PromptWithImages(
            ids_T=np.array([4, 5, 6], np.int32), images=(ImagePlace(n_before=2, n_expected=6),)
        ),
    )


def make_prompt_logprobs() -> PromptLogprobs:
    return PromptLogprobs(
        prompt_logprobs_T=np.array([0, -0.5], np.float32),
        n_top=1,
        top_ids_S=np.array([0, 4], np.int32),
        top_logprobs_S=np.array([0, -0.25], np.float32),
        n_drawn=1,
        drawn_ids_S=np.array([0, 6], np.int32),
        drawn_logprobs_S=np.array([0, -1.5], np.float32),
        target_logprobs_S=np.array([-2.5, -3, -0.75], np.float32),
    )


def make_step(**changes: Any) -> Step:
    return _make(
        Step,
        changes,
        envelope=make_envelope(),
        spec=make_spec(),
        transcript=make_transcript(turns=()),
        turn=1,
        finish=FinishReason.STOP,
    )


def make_episode_ended(**changes: Any) -> EpisodeEnded:
    return _make(
        EpisodeEnded,
        changes,
        envelope=make_envelope(),
        spec=make_spec(),
        transcript=make_transcript(),
        outcome=Completed(reward=0.5, metrics={"exact": 0.0}),
        worker=WORKER,
        started_s=1_764_000_000.25,
        ended_s=1_764_000_003.5,
    )


def make_score_group(**changes: Any) -> ScoreGroup:
    member = GroupMember(
        member=0,
        messages=make_transcript().messages,
        rewards=(None, 0.5),
        metrics={"exact": 0.0},
        stop=StopReason.DONE,
    )
    spec = make_spec(group_parts=(GroupFunctionReward(function="my_rewards:rank", weight=0.5),))
    return _make(ScoreGroup, changes, envelope=make_envelope(), spec=spec, members=(member,))


def make_group_scored(**changes: Any) -> GroupScored:
    rewards = MemberReward(member=0, reward=0.25, metrics={"reward/rank": 0.5})
    return _make(
        GroupScored,
        changes,
        envelope=make_envelope(),
        spec=make_score_group().spec,
        outcome=GroupRewards(members=(rewards,)),
        worker=WORKER,
    )


def make_failed_episode(**changes: Any) -> EpisodeEnded:
    reason = "guess raised ValueError in step 1"
    return make_episode_ended(
        outcome=Failed(kind=FailureKind.ENVIRONMENT_ERROR, reason=reason), **changes
    )


def make_token_batch(*lengths: int, **changes: Any) -> TokenBatch:
    """Sequences of these lengths (3 and 2 if none are given); all but each first token count."""
    lengths_B = np.array(lengths or (3, 2), np.int32)
    n_tokens = int(lengths_B.sum())
    mask_N = np.ones(n_tokens, np.uint8)
    mask_N[np.cumsum(lengths_B) - lengths_B] = 0
    return _make(
        TokenBatch,
        changes,
        ids_N=(np.arange(n_tokens) * 17 % 151).astype(np.int32),
        lengths_B=lengths_B,
        mask_N=mask_N,
        logprobs_N=(mask_N * -0.25).astype(np.float32),
        weights_N=(mask_N * 0.5).astype(np.float32),
    )


def make_op(**changes: Any) -> Op:
    return _make(
        Op,
        changes,
        envelope=make_envelope(episode=None),
        model=MODEL,
        epoch=1,
        number=1,
        body=ForwardBackward(loss=PpoLoss(), batch=make_token_batch()),
    )


def make_op_result(**changes: Any) -> OpResult:
    return _make(
        OpResult,
        changes,
        envelope=make_envelope(episode=None),
        model=MODEL,
        epoch=1,
        number=1,
        outcome=OpDone(version=1, metrics={"loss": -0.5}),
    )


def make_open_model(**changes: Any) -> OpenModel:
    return _make(
        OpenModel,
        changes,
        envelope=make_envelope(episode=None),
        model=MODEL,
        epoch=1,
        spec=ModelSpec(base_model=BASE_MODEL, update=LoraUpdate()),
    )


def make_job(**changes: Any) -> Job:
    return _make(
        Job,
        changes,
        envelope=make_envelope(episode=None),
        model=MODEL,
        epoch=1,
        spec=ModelSpec(base_model=BASE_MODEL, update=LoraUpdate()),
        owner="me",
    )


def make_job_taken(**changes: Any) -> JobTaken:
    return _make(
        JobTaken,
        changes,
        envelope=make_envelope(episode=None),
        model=MODEL,
        epoch=1,
        worker=WorkerId("trainer_1"),
    )


def make_delete_model(**changes: Any) -> DeleteModel:
    return _make(DeleteModel, changes, envelope=make_envelope(episode=None), model=MODEL)


def make_keep_for_job(**changes: Any) -> KeepForJob:
    return _make(KeepForJob, changes, envelope=make_envelope(episode=None), model=MODEL)


def make_drain_worker(**changes: Any) -> DrainWorker:
    envelope = make_envelope(episode=None)
    return _make(DrainWorker, changes, envelope=envelope, worker=WorkerId("env_1"), is_drained=True)


def make_close_model(**changes: Any) -> CloseModel:
    return _make(CloseModel, changes, envelope=make_envelope(episode=None), model=MODEL, epoch=1)


def make_run_logged(**fields: Any) -> RunLogged:
    lines = (
        LogLine(number=1, at_s=1.0, level=LogLevel.INFO, text="plays episodes of guess"),
        LogLine(number=4, at_s=2.0, level=LogLevel.WARNING, text="an episode failed"),
    )
    return _make(
        RunLogged,
        fields,
        envelope=Envelope(id=MESSAGE, run=RUN),
        component=LogComponent.ENV_WORKER,
        worker=WORKER,
        source="log_019aa3b7a1c04e5d90ab17ce21d3",
        n_logged=5,
        lines=lines,
    )


def make_heartbeat(**changes: Any) -> Heartbeat:
    return _make(
        Heartbeat,
        changes,
        envelope=make_envelope(run=None, episode=None),
        worker=WORKER,
        role=WorkerRole.ENVIRONMENT,
        offers=("guess", "arithmetic"),
        interval_s=2.0,
        capacity=64,
        in_flight=3,
        clock_ns=12_000_000_000,
    )


def make_heartbeats_requested(**changes: Any) -> HeartbeatsRequested:
    return _make(HeartbeatsRequested, changes, envelope=make_envelope(run=None, episode=None))


def make_policy_published(**changes: Any) -> PolicyPublished:
    return _make(
        PolicyPublished,
        changes,
        envelope=make_envelope(episode=None),
        model=MODEL,
        base_model=BASE_MODEL,
        policy=Policy(version=3, url="file:///v3", size_bytes=1024),
    )


def make_run_changed(**changes: Any) -> RunChanged:
    return _make(RunChanged, changes, envelope=make_envelope(episode=None), changed_run=RUN)


def make_requests_answered(**changes: Any) -> RequestsAnswered:
    return _make(
        RequestsAnswered,
        changes,
        envelope=make_envelope(episode=None),
        answered_model=MODEL,
        requests=("future_1", "future_2"),
    )


def make_run_ended(**changes: Any) -> RunEnded:
    return _make(
        RunEnded, changes, envelope=make_envelope(episode=None), ended_run=RUN, model=MODEL
    )


def make_episode_cancelled(**changes: Any) -> EpisodeCancelled:
    return _make(EpisodeCancelled, changes, envelope=make_envelope())


def make_run_event(**changes: Any) -> RunEvent:
    return _make(
        RunEvent,
        changes,
        envelope=make_envelope(episode=None),
        at_s=1_764_000_000.25,
        body=WaitingStarted(reason="no GPU worker is online"),
    )


EXAMPLES: dict[type[Item], list[Item]] = {
    StartEpisode: [make_start_episode()],
    Generate: [
        make_generate(),
        make_generate(transcript=Transcript(), forced_action="5", turn=0),
        make_generate(
            is_plain=True, token_options=TokenOptions(end_ids=(1, 7), seed=3, n_top_prompt=1)
        ),
        make_generate(is_plain=True, transcript=Transcript(), token_options=make_token_options()),
    ],
    Step: [
        make_step(),
        make_step(finish=FinishReason.LENGTH),
        make_step(prompt_logprobs=make_prompt_logprobs()),
    ],
    EpisodeEnded: [make_episode_ended(), make_failed_episode()],
    ScoreGroup: [make_score_group()],
    GroupScored: [
        make_group_scored(),
        make_group_scored(outcome=Failed(kind=FailureKind.REWARD_FAILED, reason="rank failed")),
    ],
    Op: [
        make_op(),
        make_op(number=2, body=OptimStep(learning_rate=1e-4)),
        make_op(number=3, body=PublishPolicy()),
        make_op(number=4, body=SaveState(name="step-1")),
    ],
    OpResult: [
        make_op_result(),
        make_op_result(outcome=OpDone(version=1, logprobs_N=np.array([0, -0.5], np.float32))),
        make_op_result(
            outcome=OpDone(version=1, policy=Policy(version=1, url="file:///v1", size_bytes=9))
        ),
        make_op_result(outcome=OpFailed(reason="the loss is not finite")),
    ],
    OpenModel: [make_open_model(), make_open_model(checkpoint_url="file:///c4", next_op=5)],
    Job: [make_job(), make_job(owner="ann")],
    JobTaken: [make_job_taken(), make_job_taken(late_after=3)],
    CloseModel: [make_close_model()],
    KeepForJob: [make_keep_for_job()],
    LoadBaseModel: [LoadBaseModel(envelope=make_envelope(episode=None), base_model=BASE_MODEL)],
    DeleteModel: [make_delete_model()],
    DrainWorker: [make_drain_worker()],
    RunLogged: [make_run_logged(), make_run_logged(n_logged=9, lines=())],
    Heartbeat: [
        make_heartbeat(),
        make_heartbeat(role=WorkerRole.TRAINER, models=(HeldModel(model=MODEL, epoch=1),)),
    ],
    HeartbeatsRequested: [make_heartbeats_requested()],
    PolicyPublished: [make_policy_published()],
    RunChanged: [make_run_changed()],
    RequestsAnswered: [make_requests_answered(), make_requests_answered(requests=None)],
    RunEnded: [make_run_ended()],
    EpisodeCancelled: [make_episode_cancelled()],
    RunEvent: [
        make_run_event(),
        make_run_event(body=WaitingEnded()),
        make_run_event(body=StateChanged(state=RunState.RUNNING, phase=Phase.TRAINING)),
        make_run_event(
            body=StateChanged(
                state=RunState.COMPLETED, reason="why", outcome=RunOutcome.NOTHING_LEARNED
            )
        ),
        make_run_event(
            body=StepCompleted(
                phase=Phase.TRAINING,
                step=1,
                n_steps=100,
                version=1,
                updates=1,
                n_episodes=64,
                metrics={"reward/mean": 0.5},
            )
        ),
        make_run_event(
            body=EvaluationCompleted(
                when="before", step=0, version=0, n_episodes=256, reward_mean=0.5, metrics={}
            )
        ),
        make_run_event(body=WarningRaised(message="the loss is unclipped")),
    ],
}
"""Of every kind, items that show each of its variants."""


def to_plain(item: Item) -> dict[str, Any]:
    """The item as plain values, to compare items that hold arrays."""
    return item.model_dump(mode="json")
