"""The columns of an export: what each row of a file says of one episode.

Invariant: parquet and JSON lines have the same columns, in this order; `Kind` says how each is written.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "text", "integer", "number", "boolean", "time", "turns", "numbers by name", "messages",
    "token ids", "mask", "logprobs", "versions",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: Kind
    meaning: str


COLUMNS = (
    Column("run", "text", "Id of the run."),
    Column("offset", "integer", "Place in the run's recording; rises, with gaps."),
    Column("episode", "text", "Id of the episode: its group and its number in it."),
    Column("group", "text", "Episodes of one task that are compared with each other."),
    Column("member", "integer", "Its number in the group."),
    Column("group_size", "integer", "How many episodes its group has; null while that is not decided."),
    Column("attempt", "integer", "1, and more where it was started again."),
    Column("purpose", "text", "`train`, `evaluate` or `demonstrate` (SFT)."),
    Column("environment", "text", "Name of the environment."),
    Column("environment_version", "text", "What the environment calls itself."),
    Column("task_split", "text", "Split of the task."),
    Column("task_index", "integer", "Number of the task in the run: what is drawn from its split."),
    Column("task_number", "integer", "Which task of the split's data it is, counted from 0; null where the"
           " environment makes its own."),
    Column("task_id", "text", "What the environment calls the task, or else its split and number: `train/7`."),
    Column("level", "integer", "Level of the task; null where its run has no curriculum of levels."),
    Column("category", "text", "What kind of task it is, where the environment says so."),
    Column("seed", "integer", "Seed of the episode, the same for its group."),
    Column("outcome", "text", "`completed` or `failed`."),
    Column("fate", "text", "`trained`, `evaluated`, `stale`, `failed` or `abandoned`; with `--all-attempts`"
           " also `superseded`; null: not decided."),
    Column("step", "integer", "Step of training (or SFT) that it was part of, or after which it was an"
           " evaluation's."),
    Column("policy_version_min", "integer", "Oldest policy version that sampled a token of it: optimizer"
           " steps of the model. Null: nothing was sampled."),
    Column("policy_version_max", "integer", "Newest one."),
    Column("reward", "number", "Of the whole episode; null where it failed."),
    Column("advantage", "number", "How much better it did than its group, where that was trained on."),
    Column("reward_parts", "numbers by name", "Parts of a composed reward."),
    Column("turns", "turns", "For each turn its `reward`, null where it gave none; `is_cut`: at"
           " `sampling.max_tokens`; `branch`: number of the conversation that it is of."),
    Column("metrics", "numbers by name", "What the environment reported beside the reward."),
    Column("truncated", "boolean", "A limit ended it, not the environment; null where it failed."),
    Column("stop", "text", "Why it ended: `done` (by its environment), `truncated` (cut by it), `max_turns` or"
           " `max_total_tokens`; null where it failed."),
    Column("failure", "text", "Kind of the failure."),
    Column("reason", "text", "Why it failed, for people."),
    Column("prompt", "text", "What the policy was shown before its first turn."),
    Column("response", "text", "What the policy said, its turns divided by an empty line."),
    Column("conversation", "text", "All that was said, each message after its role."),
    Column("messages", "messages", "The same as a list: `role`, `content`, `n_images`; `is_quoted`: shown to the"
           " policy as its own words, and not said here; `branch`: number of the conversation that it is of."),
    Column("n_turns", "integer", "Turns of the policy that the environment answered."),
    Column("n_tokens", "integer", "Tokens of the whole transcript, what several of its branches have in common more than once."),
    Column("n_sampled_tokens", "integer", "Those that the policy sampled."),
    Column("started_at", "time", "When it started, by the worker's clock."),
    Column("ended_at", "time", "When it ended."),
    Column("duration_s", "number", "Seconds between the two, for whoever ended it; where it moved, since it came there."),
    Column("reset_s", "number", "Of these, resetting the environment; by the env worker's clock."),
    Column("sampler_wait_s", "number", "Waiting for turns, less `sampling_s`. What was under way when it moved"
           " to another env worker is left out."),
    Column("sampling_s", "number", "In samplers' engines, by their clocks."),
    Column("sampling_gpu_s", "number", "GPU-seconds of that; turns that an engine takes together share them."),
    Column("step_s", "number", "The environment's answers to actions, grading included."),
    Column("worker", "text", "Who ended it."),
    Column("spec", "text", "All that defines the episode, as JSON: sampling settings, environment config, limits."),
    Column("branch_n_tokens", "token ids", "Tokens of each conversation of the episode: one, unless its"
           " environment began others or went on from an earlier turn. Messages and tokens are theirs, one after"
           " another."),
    Column("branch", "integer", "Number of the conversation that went on at the end."),
    Column("tokenizer", "text", "Digest of the vocabulary that the tokens are of."),
    Column("ids_T", "token ids", "Every token of the transcript."),
    Column("mask_T", "mask", "1 where the policy sampled the token."),
    Column("logprobs_T", "logprobs", "Natural log of the probability with which it was sampled; 0 elsewhere."),
    Column("versions_T", "versions", "Policy version that sampled it; -1 elsewhere."),
    Column("sampling_mask_sizes_T", "token ids", "How many tokens top_k, top_p and min_p left to sample it"
           " from; 0 elsewhere. Empty where they are off."),
    Column("sampling_mask_ids", "token ids", "These tokens, end to end; the sizes divide them."),
)  # fmt: skip
