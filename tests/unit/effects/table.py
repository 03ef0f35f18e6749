"""For each key of a config: a change of it, and where that makes a difference.

`beside` is what else the config says, in both runs that are compared; `EXCEPTIONS` are the keys that can't
be shown in this way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.unit.effects import probes
from tests.unit.effects.probes import Probe

WHERE = {
    "model": "trained: what the trainer makes the model from",
    "trainer": "trained: which trainers may take it",
    "starts": "sampled: what starts an episode",
    "flight": "sampled: the number of episodes in flight",
    "ops": "trained: the batches and steps that the trainer gets",
    "weights": "trained: the weights after the run",
    "batch sharing": "trained: which models share the trainer's batches",
    "tokens": "sampled: the tokens, and the logprobs that are recorded with them",
    "learned": "trained: which messages of a row are learned",
    "environment": "sampled: what the environment is started with",
    "tasks": "sampled: which task of the data each episode has",
    "observations": "sampled: what the environment shows",
    "events": "reported: the events of the run",
    "checkpoints": "stored: the list of checkpoints",
    "groups": "stored: what became of the groups",
    "stream": "stored: how long the recording is kept",
    "archive": "stored: whether the archive gets the run's trajectories",
    "folder": "reported: the lists of runs, and the folder of TensorBoard's files",
    "checkpoint": "trained: the checkpoint that the model begins with",
    "recording": "trained: which recording is read, and from where",
    "environments": "trained: whether env workers are needed for the rewards",
    "filter": "trained: which of the recorded groups are taken",
    "order": "trained: how often, and in which order, the recorded groups are taken",
}

Keys = Mapping[str, Any]

EXCEPTIONS: Mapping[str, str] = {}
"""Keys whose effect can't be shown here, each with the reason. There is none."""

PARTS: Mapping[str, Keys] = {
    "own": {"weight": 0.5, "name": "mine"},
    "function": {"function": "other:reward", "weight": 0.5, "name": "mine"},
    "service": {
        "url": "http://other", "key_variable": "WARREN_SECRET_JUDGE", "batch": 2, "in_flight": 2, "tries": 2,
        "timeout_s": 3.0, "weight": 0.5, "name": "mine",
    },
    "code": {"code": "def reward(): return 2", "limit_s": 3.0, "weight": 0.5, "name": "mine"},
    "group_function": {"function": "other:reward", "weight": 0.5, "name": "mine"},
    "group_service": {
        "url": "http://other", "key_variable": "WARREN_SECRET_JUDGE", "in_flight": 2, "tries": 2, "timeout_s": 3.0,
        "weight": 0.5, "name": "mine",
    },
    "group_judge": {
        "url": "http://other", "model": "other", "key_variable": "WARREN_SECRET_JUDGE", "prompt": "{transcripts}",
        "system": "Be strict.", "temperature": 0.5, "max_tokens": 9, "tries": 2, "deadline_s": 3.0, "in_flight": 2,
        "cache": 2, "max_requests": 9, "max_total_tokens": 9, "weight": 0.5, "name": "mine",
    },
    "judge": {
        "url": "http://other", "model": "other", "key_variable": "WARREN_SECRET_JUDGE", "prompt": "{messages}",
        "system": "Be strict.", "temperature": 0.5, "max_tokens": 9, "tries": 2, "deadline_s": 3.0, "in_flight": 2,
        "cache": 2, "max_requests": 9, "max_total_tokens": 9, "weight": 0.5, "name": "mine",
    },
}  # fmt: skip
"""Keys of the parts of a reward."""
REQUIRED: Mapping[str, Keys] = {
    "own": {},
    "function": {"function": "some:reward"},
    "service": {"url": "http://some"},
    "code": {"code": "def reward(): return 1"},
    "group_function": {"function": "some:reward"},
    "group_service": {"url": "http://some"},
    "group_judge": {"url": "http://some", "model": "some", "prompt": "{responses}"},
    "judge": {"url": "http://some", "model": "some", "prompt": "{response}"},
}
"""What a part of a kind must have."""
OBEYED_BY_PARTS: Mapping[str, str] = {
    "weight": "tests/process/env_worker/test_rubrics.py::"
    "test_parts_are_added_to_the_last_turn_and_own_rewards_are_weighted_where_they_are",
    "name": "tests/unit/env_worker/rewards/test_rewards.py::test_parts_are_added_up_with_their_weights",
    "function": "tests/unit/env_worker/rewards/test_rewards.py::test_functions_take_what_they_name",
    "code": "tests/process/env_worker/test_uploaded_rewards.py::test_it_takes_what_it_names",
    "limit_s": "tests/process/env_worker/test_uploaded_rewards.py::test_one_that_fails_gives_no_reward",
    "url": "tests/unit/env_worker/rewards/test_rewards.py::"
    "test_row_26_a_service_gives_the_rewards_of_episodes_that_end_together",
    "key_variable": "tests/unit/env_worker/rewards/test_rewards.py::"
    "test_row_26_a_service_gives_the_rewards_of_episodes_that_end_together",
    "batch": "tests/unit/env_worker/rewards/test_rewards.py::"
    "test_row_26_a_service_gives_the_rewards_of_episodes_that_end_together",
    "in_flight": "tests/unit/env_worker/rewards/test_rewards.py::"
    "test_row_26_a_service_gives_the_rewards_of_episodes_that_end_together",
    "tries": "tests/unit/env_worker/rewards/test_rewards.py::test_row_55_busy_services_are_asked_again",
    "timeout_s": "tests/unit/env_worker/rewards/test_rewards.py::test_row_55_busy_services_are_asked_again",
    "model": "tests/unit/env_worker/rewards/test_judge.py::"
    "test_what_is_asked_stands_in_the_request",
    "prompt": "tests/unit/env_worker/rewards/test_judge.py::"
    "test_what_is_asked_stands_in_the_request",
    "system": "tests/unit/env_worker/rewards/test_judge.py::"
    "test_what_is_asked_stands_in_the_request",
    "temperature": "tests/unit/env_worker/rewards/test_judge.py::"
    "test_what_is_asked_stands_in_the_request",
    "max_tokens": "tests/unit/env_worker/rewards/test_judge.py::"
    "test_what_is_asked_stands_in_the_request",
    "deadline_s": "tests/unit/env_worker/rewards/test_judge.py::"
    "test_a_judge_who_does_not_answer_in_time_fails_the_part",
    "cache": "tests/unit/env_worker/rewards/test_judge.py::"
    "test_the_same_question_is_asked_once_as_long_as_it_is_remembered",
    "max_requests": "tests/unit/env_worker/rewards/test_judge.py::"
    "test_a_budget_that_is_spent_fails_what_is_asked_next",
    "max_total_tokens": "tests/unit/env_worker/rewards/test_judge.py::"
    "test_a_budget_that_is_spent_fails_what_is_asked_next",
}

ACTED_ON: Mapping[str, str] = {
    "environments.workers": "tests/unit/coordinator/test_parts.py::"
    "test_episodes_of_an_own_environment_start_at_the_owners_queue",
    "environments.curriculum": "tests/process/env_worker/test_host.py::"
    "test_an_environment_is_told_of_which_level_its_task_is_to_be",
    "environments.recover": "tests/unit/coordinator/test_failed_members.py::"
    "test_an_environment_that_restarts_moves_no_house",
    "environments.episode_s": "tests/process/env_worker/test_interactions.py::"
    "test_items_past_their_deadline_fail",
    "limits.episode_s": "tests/process/env_worker/test_interactions.py::"
    "test_items_past_their_deadline_fail",
    "environments.rewards.kind": "tests/process/env_worker/test_rubrics.py::"
    "test_parts_are_added_to_the_last_turn_and_own_rewards_are_weighted_where_they_are",
    "environments.secrets": "tests/process/env_worker/test_secrets.py::"
    "test_row_56_an_environment_gets_the_secrets_that_were_named",
    "secrets": "tests/process/env_worker/test_secrets.py::"
    "test_row_56_an_environment_gets_the_secrets_that_were_named",
    **{
        f"environments.rewards.{key} ({kind})": OBEYED_BY_PARTS[key]
        for kind, keys in PARTS.items()
        for key in keys
    },
    **{
        f"environments.rewards.score.{key}": "tests/unit/env_worker/rewards/test_judge.py::"
        "test_scores_are_read_from_what_a_judge_says"
        for key in (
            "kind",
            "after (number)",
            "minimum (number)",
            "maximum (number)",
            "field (json)",
            "minimum (json)",
            "maximum (json)",
        )
    },
    **{
        f"environments.rewards.score.{key}": "tests/unit/env_worker/rewards/test_groups.py::"
        "test_scores_of_a_group_are_read_from_what_a_judge_says"
        for key in ("after (ranking)", "minimum (list)", "maximum (list)")
    },
}
"""Keys that go into an episode's start as orders to somebody: the test in which that somebody obeys."""


@dataclass(frozen=True)
class Row:
    key: str
    value: Any
    where: str
    probe: Probe
    beside: Keys = field(default_factory=dict[str, Any])
    """By key."""


def _of(where: str, probe: Probe, beside: Keys | None = None, /, **values: Any) -> list[Row]:
    """Keys with `__` for the dots."""
    keys = {key.replace("__", "."): value for key, value in values.items()}
    return [Row(key, value, where, probe, beside or {}) for key, value in keys.items()]


def _kinds(where: str, section: str, **kinds: Keys) -> list[Row]:
    """Keys of one of several kinds."""
    return [
        Row(f"{section}.{key} ({kind})", value, where, probes.trained, {f"{section}.kind": kind})
        for kind, values in kinds.items()
        for key, value in values.items()
    ]


SCORES: Mapping[str, Keys] = {
    "number": {"after": "Score:", "minimum": 1.0, "maximum": 5.0},
    "json": {"field": "other", "minimum": 1.0, "maximum": 5.0},
    "ranking": {"after": "Best:"},
    "list": {"minimum": 1.0, "maximum": 5.0},
}
"""Keys of the ways to read a judge's score, or those of a group."""


def _judged(kind: str) -> Keys:
    part = "group_judge" if kind in ("ranking", "list") else "judge"
    return {**_part(part), "environments.rewards.score.kind": kind}


def _part(kind: str) -> Keys:
    return {"environments.rewards.kind": {"kind": kind, **REQUIRED[kind]}}


FULL_SAMPLING: Keys = {
    "temperature": 0.3, "top_p": 0.2, "top_k": 2, "min_p": 0.6, "repetition_penalty": 3.0,
    "max_tokens": 2, "max_total_tokens": 10, "stop": ["1", "e", " "], "thinking": False,
}  # fmt: skip
SAVED = {"checkpoint.every_steps": 1, "limits.steps": 6, "algorithm.max_staleness": 0}
CURRICULUM: Keys = {
    "environments.curriculum": {"n": 8, "score_temperature": 0.1},
    "limits.steps": 24,
}
CRITIC: Keys = {"algorithm.critic": {}}
KL: Keys = {"algorithm.kl": {"coefficient": 0.5}}
SFT, EVALUATION = {"sft": {"steps": 2, "episodes_per_step": 2}}, {"evaluation": {"episodes": 2}}
ROWS_OF = {"sft": {"steps": 100, "episodes_per_step": 2, "dataset": "chats"}}
FEW_ROWS = {"sft": {"steps": 2, "episodes_per_step": 2, "dataset": "chats"}}
HELD_OUT = {"sft": {**FEW_ROWS["sft"], "evaluation_split": "dev"}}
SAMPLED_TWICE: Keys = {"evaluation": {"episodes": 2, "temperature": 1.0}}
CUT = {
    "environments.max_turns": 2,
    "environments.reward_reduction": "mean",
    "algorithm.advantage": "group_mean",
}
QUORUM = {"algorithm.groups.kind": "quorum"}
DEFAULTS: Keys = {
    "algorithm.max_staleness": 2, "sampling.max_tokens": 256,
    "limits.episode_s": 600.0, "limits.episode_attempts": 3, "limits.failed_groups": 16,
}  # fmt: skip
"""Of what a replay has no use for."""
REPLAY: Keys = {**DEFAULTS, "source": {"kind": "recorded", "run": "run_other"}}
REPLAYED_ROWS: Keys = {**DEFAULTS, "source": {"kind": "recorded", "dataset": probes.SOME_ROWS}}
RESUMED = {"resume_from": {"run": "run_other"}, "limits.steps": 9}

ROWS: list[Row] = [
    *_of("folder", probes.stored, name="other"),
    *_of("model", probes.run, model__base="other"),
    *_of("weights", probes.trained, model__update__kind={"kind": "full"}),
    *(
        Row(f"model.update.{key} (lora)", value, "weights", probes.trained)
        for key, value in (
            ("rank", 3), ("alpha", 5.0), ("targets", ["q_proj"]), ("exclude", ["q_proj"]), ("seed", 5),
        )
    ),
    Row("model.update.start_adapter (lora)", "theirs", "ops", probes.run),
    *_of("trainer", probes.stored, model__gpus=2),
    *_of("batch sharing", probes.trained, model__deterministic=True),
    *_of(
        "starts",
        probes.run,
        environments__name="other",
        environments__workers="own",
        environments__weight=3.0,
        environments__recover="restart",
        environments__group_size=3,
        environments__episode_s=7.0,
        environments__secrets=["KEY"],
        environments__dataset="tasks",
        secrets=["KEY"],
        seed=5,
        algorithm__group_size=5,
        limits__episode_s=9.0,
    ),
    *_of("starts", probes.run, environments__curriculum={"n": 3}),
    *_of(
        "starts", probes.run, CURRICULUM, environments__curriculum__n=9,
        environments__curriculum__over="tasks", environments__curriculum__solved_at=-9.0,
        environments__curriculum__uniform=0.99, environments__curriculum__score_temperature=5.0,
        environments__curriculum__half_life_groups=0.1,
    ),
    *_of("starts", probes.run, environments__rewards__kind={"kind": "own"}),
    *(
        Row(f"environments.rewards.{key} ({kind})", value, "starts", probes.run, _part(kind))
        for kind, keys in PARTS.items()
        for key, value in keys.items()
    ),
    *_of("starts", probes.run, _part("judge"), environments__rewards__score__kind="yes_no"),
    *(
        Row(f"environments.rewards.score.{key} ({kind})", value, "starts", probes.run, _judged(kind))
        for kind, keys in SCORES.items()
        for key, value in keys.items()
    ),
    *_of("observations", probes.environment, environments__config={"low": 5, "high": 30}),
    *_of("environment", probes.environment, environments__split="b", environments__tool_format="xml"),
    *_of("environment", probes.environment, EVALUATION, environments__evaluation_split="b"),
    *_of(
        "tasks",
        probes.environment,
        environments__splits__shuffle=False,
        environments__splits__num_samples=2,
        environments__splits__task_ids=["train/7", "train/2"],
    ),
    *(Row(f"sampling.{k}", v, "tokens", probes.sampled) for k, v in FULL_SAMPLING.items()),
    *(
        Row(f"environments.sampling.{k}", v, "tokens", probes.sampled)
        for k, v in FULL_SAMPLING.items()
    ),
    *_of("starts", probes.failing, environments__episode_attempts=4, limits__episode_attempts=4),
    *_of("groups", probes.failing, environments__max_failed_members=0),
    *_of("groups", probes.failing, algorithm__groups__kind="all"),
    Row("algorithm.groups.max_failed_members (quorum)", 0, "groups", probes.failing, QUORUM),
    *_of(
        "ops", probes.run, environments__reward_reduction="max",
        environments__min_reward=0.0, environments__max_reward=0.5,
    ),
    *_of("ops", probes.run, CUT, environments__nonterminal_reward=-9.0),
    *_of("ops", probes.run, environments__max_turns=2),
    *_of("flight", probes.run, environments__max_in_flight=4, limits__in_flight=4),
    *_of("flight", probes.run, algorithm__max_staleness=0),
    Row("source.kind", REPLAY["source"], "recording", probes.begun, DEFAULTS),
    *(
        Row(f"source.{key} (recorded)", value, "recording", probes.begun, REPLAY)
        for key, value in (
            ("run", "run_third"), ("from_offset", 70), ("from_s", 99.0), ("also_runs", ["run_third"]),
        )
    ),
    *(
        Row(f"source.{key} (recorded)", value, "order", probes.begun, REPLAY)
        for key, value in (("epochs", 3), ("shuffle_window", 4))
    ),
    Row("source.rewards (recorded)", "scored", "environments", probes.begun, REPLAY),
    Row("source.from_archive (recorded)", True, "recording", probes.begun, REPLAY),
    *(
        Row(f"source.{key} (recorded)", value, "recording", probes.begun, REPLAYED_ROWS)
        for key, value in (("dataset", probes.OTHER_ROWS), ("split", "dev"))
    ),
    *(
        Row(f"source.where.{key} (recorded)", value, "filter", probes.filtered, REPLAY)
        for key, value in (
            ("min_reward", 0.5), ("max_reward", 0.5), ("environments", ["other"]),
            ("categories", ["hard"]), ("min_version", 2), ("max_version", 2), ("fates", ["stale"]),
            ("until_s", 5.0),
        )
    ),
    *_of("checkpoint", probes.begun, {"limits.steps": 9}, resume_from={"run": "run_other"}),
    *_of(
        "checkpoint", probes.begun, RESUMED, resume_from__run="run_third",
        resume_from__checkpoint="step-000003",
    ),
    *_of("weights", probes.trained, algorithm__loss__kind="cispo"),
    *_kinds(
        "weights",
        "algorithm.loss",
        ppo={"clip_low": 0.1, "clip_high": 1e6},
        gspo={"clip_low": 0.001, "clip_high": 1e6},
        cispo={"clip_low": 0.9, "clip_high": 1.5},
        sapo={"tau_pos": 0.2, "tau_neg": 0.2},
        dro={"beta": 0.9},
    ),
    *_of("weights", probes.trained, algorithm__advantage="group_mean", algorithm__critic={}),
    *_of("weights", probes.trained, algorithm__kl={"coefficient": 0.5}),
    *_of("weights", probes.trained, algorithm__credit__kind="turn"),
    Row(
        "algorithm.credit.discount (turn)", 0.5, "weights", probes.trained,
        {"algorithm.credit.kind": "turn"},
    ),
    *_of(
        "weights", probes.trained, CRITIC,
        algorithm__critic__gamma=0.5, algorithm__critic__gae_lambda=0.3,
        algorithm__critic__value_coefficient=3.0, algorithm__critic__value_clip=0.01,
    ),
    *_of(
        "weights", probes.trained, KL,
        algorithm__kl__coefficient=0.9, algorithm__kl__estimator="k2",
        algorithm__kl__place="reward",
    ),
    *_of(
        "weights",
        probes.trained,
        algorithm__entropy_coefficient=0.5,
        algorithm__tis_cap=0.5,
        algorithm__groups_per_step=1,
        algorithm__normalize="none",
        optimizer__learning_rate=0.05,
        optimizer__warmup_steps=3,
        optimizer__schedule="linear",
        optimizer__beta1=0.1,
        optimizer__beta2=0.1,
        optimizer__eps=0.1,
        optimizer__weight_decay=0.5,
        optimizer__clip_norm=0.001,
        limits__steps=2,
    ),
    *_of("weights", probes.trained, {"optimizer.schedule": "linear"}, optimizer__floor=0.9),
    *_of("weights", probes.trained, sft=SFT["sft"]),
    *_of(
        "weights", probes.trained, SFT,
        sft__steps=3, sft__episodes_per_step=3, sft__learning_rate=0.05,
    ),
    *_of("starts", probes.run, SFT, sft__dataset="chats"),
    *_of("starts", probes.run, ROWS_OF, sft__split="other", sft__max_tokens=9),
    *_of("learned", probes.run, ROWS_OF, sft__roles=["user"]),
    *_of("events", probes.run, ROWS_OF, sft__epochs=0.5),
    *_of("ops", probes.run, FEW_ROWS, sft__evaluation_split="dev"),
    *_of("ops", probes.run, HELD_OUT, sft__evaluate_every=1, sft__evaluation_rows=3),
    *_of("events", probes.run, evaluation=EVALUATION["evaluation"]),
    *_of(
        "events", probes.run, EVALUATION, evaluation__episodes=4, evaluation__before=False,
        evaluation__after=False, evaluation__every_steps=1,
    ),
    *_of("starts", probes.run, SAMPLED_TWICE, evaluation__samples=2),
    *_of("tokens", probes.sampled, EVALUATION, evaluation__temperature=2.0),
    *_of("checkpoints", probes.run, checkpoint__every_steps=1),
    *_of(
        "checkpoints", probes.run, SAVED, checkpoint__keep_last=3,
        checkpoint__keep_every=2, checkpoint__keep_best=2,
    ),
    *_of(
        "stream", probes.stored, retention__age_s=900.0, retention__size_bytes=16_000_000,
    ),
    *_of("archive", probes.stored, retention__archive="jsonl"),
    *_of("events", probes.run, {"limits.steps": 20}, limits__stop_at_reward=-9.0),
    *_of(
        "events", probes.level, limits__warn_after_zero_variance_steps=1,
        limits__stop_after_zero_variance_steps=1,
    ),
    *_of(
        "events", probes.level, {"limits.warn_after_zero_variance_steps": 1},
        limits__stop_on=["zero_variance"],
    ),
    *_of("events", probes.idle, limits__stalled_after_s=20.0),
    *_of("events", probes.idle, {"limits.stalled_after_s": 20.0}, limits__wait_s=5.0),
    *_of("events", probes.broken, limits__failed_groups=2),
]  # fmt: skip

BASE: Keys = {
    "model": {"base": "tiny", "update": {"kind": "lora", "rank": 2}},
    "environments": [
        {"name": "guess"},
        {"name": "other"},
    ],
    "sampling": {"max_tokens": 8},
    "algorithm": {"group_size": 4, "groups_per_step": 2, "max_staleness": 1},
    "optimizer": {"learning_rate": 0.01},
    "limits": {"steps": 3, "episode_s": 50.0, "episode_attempts": 2, "failed_groups": 5},
}


def written(keys: Keys) -> dict[str, Any]:
    """The config with these keys; under `environments` the first one's."""
    found: dict[str, Any] = _copied(BASE)
    for key, value in keys.items():
        _set(found, key.partition(" (")[0].split("."), _copied(value))
    return found


def _set(section: dict[str, Any], path: list[str], value: Any) -> None:
    name, *rest = path
    if name == "kind" and isinstance(value, Mapping):  # another kind has other keys
        section.clear()
        section.update(value)  # pyright: ignore[reportUnknownArgumentType]
    elif not rest:
        section[name] = value
    elif name == "environments":
        _set(section[name][0], rest, value)
    elif name == "rewards":
        _set(section.setdefault(name, [{}])[0], rest, value)
    elif name == "splits":
        _set(section.setdefault(name, {}).setdefault("train", {}), rest, value)
    else:
        _set(section.setdefault(name, {}), rest, value)


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return [_copied(each) for each in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]
