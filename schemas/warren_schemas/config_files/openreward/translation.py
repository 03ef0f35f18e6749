"""What becomes of each key of OpenReward's training example.

Invariant: every key that was written has its effect here, or is told in one line, or is refused in one; the
result is a config like any other, which is validated as such.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import ValidationError

from warren_schemas.config.limits import MAX_IN_FLIGHT
from warren_schemas.config_files.openreward.domains import KEY_SECRETS, domains, is_openrewards
from warren_schemas.config_files.openreward.keys import Secrets, TheirConfig, TheirEnvironment
from warren_schemas.text.explain import explain

HOSTED_URL = "https://sessions.openreward.ai/"
"""Where OpenReward's own environments are asked."""
PREFIX = "WARREN_SECRET_"
KEY = f"{PREFIX}OPENREWARD_API_KEY"
MAX_STEPS = 1_000_000_000
MAX_TURNS = 1000
"""There is no limit there but that of tokens."""

_LOSS_KEYS = {
    "ppo": {"clip_low_threshold": "clip_low", "clip_high_threshold": "clip_high"},
    "cispo": {"clip_low_threshold": "clip_low", "clip_high_threshold": "clip_high"},
    "dro": {"beta": "beta"},
    "importance_sampling": {},
}
_LOSS_DEFAULTS: dict[str, dict[str, float]] = {"ppo": {"clip_low": 0.8, "clip_high": 1.2}}


class Refused(ValueError):
    """`lines`: one for each key that can't be taken over."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


class Translated(NamedTuple):
    config: dict[str, Any]
    told: list[str]
    """One line for each thing that differs from what the file says there."""


def translated(data: object, url: str = HOSTED_URL) -> Translated:
    """The config for environments at `url`. Raises `Refused`."""
    try:
        theirs = TheirConfig.model_validate(data)
    except ValidationError as error:
        raise Refused(explain(error, TheirConfig)) from error
    if refused := list(_refused(theirs)):
        raise Refused(refused)
    return Translated(_config(theirs, url), list(_told(theirs, url)))


def _config(theirs: TheirConfig, url: str) -> dict[str, Any]:
    return {
        "name": theirs.openreward_run_name or "openreward",
        "seed": theirs.seed,
        "model": {"base": theirs.model_name, "update": {"kind": "lora", "rank": theirs.lora_rank}},
        "environments": list(_environments(theirs, url)),
        "sampling": {
            "max_tokens": theirs.max_response_tokens,
            "max_total_tokens": theirs.max_total_tokens,
            "thinking": theirs.thinking,
        },
        "algorithm": {
            "loss": _loss(theirs),
            "advantage": theirs.advantage_calculation,
            "groups_per_step": theirs.batch_size,
            "max_staleness": 0,
            "normalize": "none",
        },
        "optimizer": {
            "learning_rate": theirs.learning_rate,
            "weight_decay": theirs.weight_decay,
            "clip_norm": 0.0,
        },
        "checkpoint": {"every_steps": theirs.save_every},
        "limits": {
            "steps": _steps(theirs) or MAX_STEPS,
            "episode_s": theirs.rollout_timeout,
            "episode_attempts": theirs.max_rollout_retries + 1,
            "in_flight": _in_flight(theirs),
        },
    }


def _environments(theirs: TheirConfig, url: str) -> Iterator[dict[str, Any]]:
    """One for each split: a split of ours is a setting of its environment."""
    for name, environment in theirs.environments.items():
        config: dict[str, Any] = {"url": url, "environment": name}
        secrets = _secrets(theirs.secrets, environment.secrets)
        if is_openrewards(url):
            config["key_variable"] = KEY
            secrets |= dict.fromkeys(KEY_SECRETS, KEY)
            config["secret_domains"] = domains(url, secrets)
        if secrets:
            config["secrets"] = secrets
        for split, settings in environment.splits.items():
            yield {
                "name": "ors",
                "config": config,
                "split": split,
                "splits": {split: settings.model_dump()},
                "max_turns": MAX_TURNS,
                "group_size": environment.num_rollouts,
                "max_failed_members": environment.max_failing_rollouts,
                "sampling": _sampling(environment),
                "reward_reduction": environment.reward_reduction,
                "nonterminal_reward": environment.nonterminal_reward,
                "min_reward": environment.min_reward,
                "max_reward": environment.max_reward,
                "weight": settings.num_samples if _counts_tasks(theirs) else 1.0,
            }


def _sampling(environment: TheirEnvironment) -> dict[str, float]:
    given = {key: getattr(environment, key) for key in ("temperature", "top_p", "top_k")}
    return {key: value for key, value in given.items() if value is not None}


def _secrets(of_all: Secrets | None, own: Secrets | None) -> dict[str, str]:
    named = {**(of_all or {}), **(own or {})}
    return {name: f"{PREFIX}{name.upper()}" for name, value in named.items() if value is None}


def _loss(theirs: TheirConfig) -> dict[str, Any]:
    names = _LOSS_KEYS[theirs.loss_fn]
    given = {names[key]: value for key, value in theirs.loss_fn_config.items()}
    return {"kind": theirs.loss_fn, **_LOSS_DEFAULTS.get(theirs.loss_fn, {}), **given}


def _counts_tasks(theirs: TheirConfig) -> bool:
    """Whether the file says how many tasks each split has at most."""
    environments = theirs.environments.values()
    return all(s.num_samples is not None for e in environments for s in e.splits.values())


def _steps(theirs: TheirConfig) -> int | None:
    """None: without end."""
    if theirs.num_epochs is None:
        return None
    environments = theirs.environments.values()
    n_tasks = sum(s.num_samples or 0 for e in environments for s in e.splits.values())
    return theirs.num_epochs * max(n_tasks // theirs.batch_size, 1)


def _in_flight(theirs: TheirConfig) -> int:
    return min(
        theirs.max_active_tasks, theirs.max_rollout_concurrency or MAX_IN_FLIGHT, MAX_IN_FLIGHT
    )


def _refused(theirs: TheirConfig) -> Iterator[str]:
    if theirs.resume_from is not None:
        yield "resume_from: a checkpoint of Tinker can't be loaded here; leave it out"
    if theirs.tokenizer_name not in (None, theirs.model_name):
        yield "tokenizer_name: a base model comes with its own tokenizer; leave it out"
    if theirs.system_prompt_template is not None:
        yield (
            "system_prompt_template: tools are told in the form that tool_format names; leave it out, and"
            " set environments.0.config.system_prompt for words before them"
        )
    if theirs.num_epochs is not None and not _counts_tasks(theirs):
        yield (
            "num_epochs: how many tasks there are is known to their server alone; leave it out and set"
            " limits.steps, or give num_samples of every split"
        )
    for name, environment in theirs.environments.items():
        if environment.temperature == 0:
            yield (
                f"environments.{name}.temperature: 0 samples the same tokens in all of a group, which has nothing"
                " to learn from; write a number above 0"
            )
        if environment.top_p == 0:
            yield f"environments.{name}.top_p: 0 leaves no token to sample; write a number above 0"
    for key in theirs.loss_fn_config.keys() - _LOSS_KEYS[theirs.loss_fn].keys():
        known = ", ".join(_LOSS_KEYS[theirs.loss_fn]) or "none"
        yield f"loss_fn_config.{key}: {theirs.loss_fn} has no such key; it has {known}"
    for place, secrets in _all_secrets(theirs):
        for name in (name for name, value in (secrets or {}).items() if value):
            yield (
                f"{place}.{name}: a config is stored, and holds no secret's value: write null, and start env"
                f" workers with {PREFIX}{name.upper()} in their environment"
            )


def _all_secrets(theirs: TheirConfig) -> Iterator[tuple[str, Secrets | None]]:
    yield "secrets", theirs.secrets
    for name, environment in theirs.environments.items():
        yield f"environments.{name}.secrets", environment.secrets


def _told(theirs: TheirConfig, url: str) -> Iterator[str]:
    yield f"environments: they are asked at {url}; OPENREWARD_SESSION_URL names another server"
    if variables := sorted(set(_variables(theirs, url))):
        yield f"secrets: env workers need {', '.join(variables)} in their environment"
    if theirs.wandb_project_name or theirs.wandb_run_name:
        yield "wandb_project_name, wandb_run_name: nothing is sent to W&B; metrics go to TensorBoard"
    if theirs.log_path is not None:
        yield "log_path: logs and metrics lie with the gateway"
    if theirs.num_epochs is None:
        yield "num_epochs: it trains until it is cancelled; limits.steps ends it earlier"
    if max(theirs.max_active_tasks, theirs.max_rollout_concurrency or 0) > MAX_IN_FLIGHT:
        yield f"max_active_tasks, max_rollout_concurrency: at most {MAX_IN_FLIGHT} episodes are live"
    yield from _told_of_episodes(theirs)
    if len(list(_environments(theirs, url))) > 1 and not _counts_tasks(theirs):
        yield "environments: each split gets an equal share of the groups; weight changes it"


def _told_of_episodes(theirs: TheirConfig) -> Iterator[str]:
    environments = theirs.environments.values()
    if "rollout_timeout" in theirs.model_fields_set:
        yield "rollout_timeout: it limits each attempt at an episode; there all of them and the wait for a slot"
    if any("max_failing_rollouts" in each.model_fields_set for each in environments):
        yield "max_failing_rollouts: episodes that time out count as well; there they don't"
    if any(each.reward_reduction != "sum" for each in environments):
        yield "reward_reduction: it is over turns, whose calls' rewards are added up; there over calls"
    if any(each.top_k for each in environments):
        yield "top_k: it has its effect here; there it has none"


def _variables(theirs: TheirConfig, url: str) -> Iterator[str]:
    for environment in _environments(theirs, url):
        config: dict[str, Any] = environment["config"]
        yield from config.get("secrets", {}).values()
        if "key_variable" in config:
            yield config["key_variable"]
