"""Metrics of a batch, named as TensorBoard tags.

Suffix legend: `_B` trajectories of the batch.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from warren_gateway.coordinator.learning.advantages import tells
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.told_metrics import ToldMetrics
from warren_schemas.episode import Completed, EpisodeEnded, StopReason

TRAINER_TAGS = {
    "loss:sum": "policy/loss",
    "tokens:sum": "policy/tokens",
    "ratio:mean": "policy/ratio_mean",
    "ratio:max": "policy/ratio_max",
    "kl_k3:mean": "policy/kl_k3",
    "clip_frac:mean": "policy/clip_frac",
    "kl_reference:mean": "policy/kl_reference",
    "tis_truncated:mean": "policy/tis_truncated_frac",
    "ess:mean": "policy/ess_frac",
    "entropy:mean": "policy/entropy",
    "value:mean": "critic/value",
    "return:mean": "critic/return",
    "value_error:mean": "critic/squared_error",
    "grad_norm": "policy/grad_norm",
    "learning_rate": "policy/learning_rate",
}
"""What the trainer answers, and the tag that people see."""


def batch_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Metrics of the groups of one step."""
    pairs = [pair for group in groups for pair in group.completed]
    if not pairs:
        return {}
    return {
        **_rewards(groups, [outcome.reward for _, outcome in pairs]),
        **_sequences([item for item, _ in pairs]),
    }


def trainer_metrics(answers: Sequence[dict[str, float]]) -> dict[str, float]:
    """One step's answers as tags."""
    told = ToldMetrics()
    for answer in answers:
        told.add(answer)
    return tagged_as_people_see(told)


def tagged_as_people_see(told: ToldMetrics) -> dict[str, float]:
    """Without what has no tag."""
    merged = told.merged()
    return {TRAINER_TAGS[name]: merged[name] for name in merged if name in TRAINER_TAGS}


def held_out_metrics(answers: Sequence[dict[str, float]]) -> dict[str, float]:
    """Of ops whose loss is the sum over their learned tokens: the mean, and how many tokens it is of."""
    n_tokens = sum(answer["tokens:sum"] for answer in answers)
    if not n_tokens:
        return {}
    loss = sum(answer["loss:sum"] for answer in answers) / n_tokens
    return {"evaluation_loss": loss, "evaluation_tokens": n_tokens}


def _rewards(groups: Sequence[Group], rewards: list[float]) -> dict[str, float]:
    rewards_B = np.array(rewards)
    same = [not tells(np.array([o.reward for _, o in group.completed])) for group in groups]
    return {
        "reward/mean": float(rewards_B.mean()),
        "reward/std": float(rewards_B.std()),
        "reward/min": float(rewards_B.min()),
        "reward/max": float(rewards_B.max()),
        "group/all_same_frac": float(np.mean(same)),
        "group/all_same": float(sum(same)),
    }


def _sequences(items: list[EpisodeEnded]) -> dict[str, float]:
    sampled_B = np.array([item.transcript.n_sampled for item in items])
    turns_B = np.array([len(item.transcript.turns) for item in items])
    truncated = [isinstance(i.outcome, Completed) and i.outcome.truncated for i in items]
    return {
        "seq/response_len": float(sampled_B.mean()),
        "seq/response_len_max": float(sampled_B.max()),
        "seq/turns": float(turns_B.mean()),
        "seq/truncated_frac": float(np.mean(truncated)),
        **_stops(items),
        **_candidates(items),
        "episode/duration_s": float(np.mean([i.ended_s - i.started_s for i in items])),
        **_times(items),
        "time/rollout_s": max(i.ended_s for i in items) - min(i.started_s for i in items),
    }


def _stops(items: Sequence[EpisodeEnded]) -> dict[str, float]:
    """Shares of the episodes by why they ended, and of the turns that were cut."""
    stops = Counter(i.outcome.stop for i in items if isinstance(i.outcome, Completed))
    cut = [turn.is_cut for item in items for turn in item.transcript.turns]
    return {
        **{f"seq/stop_frac/{stop.value}": stops[stop] / len(items) for stop in StopReason},
        "seq/turns_cut_frac": sum(cut) / max(1, len(cut)),
    }


def _candidates(items: Sequence[EpisodeEnded]) -> dict[str, float]:
    """Of the sampled tokens of episodes that have a sampling mask, those that had no other beside them."""
    masks = [tokens.sampling_mask for item in items for tokens in item.transcript.sequences]
    sizes = [mask.sizes_N[mask.sizes_N > 0] for mask in masks if mask is not None]
    n_sampled = sum(size.size for size in sizes)
    if not n_sampled:
        return {}
    n_alone = sum(int(np.count_nonzero(size == 1)) for size in sizes)
    return {"seq/single_candidate_frac": n_alone / n_sampled}


def _times(items: Sequence[EpisodeEnded]) -> dict[str, float]:
    """Where the seconds of an episode went, on average."""
    times = [item.transcript.times for item in items]
    parts = {
        "reset_s": [t.reset_s for t in times],
        "sampler_wait_s": [t.sampler_wait_s for t in times],
        "sampling_s": [t.sampling_s for t in times],
        "step_s": [t.step_s for t in times],
    }
    return {f"episode/{name}": sum(values) / len(times) for name, values in parts.items()}
