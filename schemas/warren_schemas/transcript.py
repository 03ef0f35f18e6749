"""The transcript of an episode: what was said, and the exact tokens that the policy saw and made.

The transcript travels with the message, so that any worker can take the episode over. Chat messages
are for environments and people; the token arrays are for engines and trainers. Tokens are appended
and never rewritten: what was sampled is what is trained on.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Annotated, Literal, Self

import numpy as np
import orjson
from pydantic import Field, model_validator

from warren_schemas.base import Frozen
from warren_schemas.episode_times import NO_TIMES, EpisodeTimes
from warren_schemas.fields.arrays import Logprobs, Mask, TokenIds, Versions
from warren_schemas.fields.growing_lists import GrowsInMessages
from warren_schemas.fields.one_span import OneSpan
from warren_schemas.ids import TaskId
from warren_schemas.images import Image
from warren_schemas.sampling_mask import SamplingMask, fault

NOT_SAMPLED = -1
"""The policy version of a token that no policy sampled."""
MAX_CATEGORY_CHARS = 128
_MOST_CHAR_BYTES = 6
"""Of a character in JSON: a control character as an escape."""
_QUOTES_BYTES = 2
"""Around a message's words in JSON."""


class ChatMessage(Frozen):
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    images: tuple[Image, ...] = ()
    """Shown with the content, in this order. A policy that can't see fails the episode."""
    is_quoted: bool = False
    """Of the role assistant: words that the policy is shown as its own and did not say here, such as an
    example, or a history that was written anew."""
    n_tokens: int = Field(default=0, ge=0)
    """Shown as so many tokens that the environment told itself, and not as words."""

    @property
    def is_action(self) -> bool:
        """Whether the policy said it, here."""
        return self.role == "assistant" and not self.is_quoted

    @property
    def n_chars(self) -> int:
        """Of its text, and of its images in base64."""
        n_chars = len(self.content)
        return n_chars + sum(len(i.base64) for i in self.images) if self.images else n_chars

    @property
    def size_bytes(self) -> int:
        """What it weighs in a message: as JSON."""
        return len(orjson.dumps(self.content)) + sum(len(image.base64) for image in self.images)


class Tokens(Frozen):
    """Four aligned arrays over the T tokens of one sequence."""

    ids_T: TokenIds
    mask_T: Mask
    """1 where the policy sampled the token, 0 for everything else."""
    logprobs_T: Logprobs
    """Natural log of the probability with which the token was sampled; 0 where mask is 0."""
    versions_T: Versions
    """The policy version that sampled the token; -1 where mask is 0."""
    sampling_mask: SamplingMask | None = None
    """What each token was sampled from; None where nothing was cut, or nobody trains on it."""

    @model_validator(mode="after")
    def _aligned(self) -> Self:
        n = self.ids_T.size
        if not (self.mask_T.size == self.logprobs_T.size == self.versions_T.size == n):
            raise ValueError(
                f"arrays differ in length: {n} ids, {self.mask_T.size} mask,"
                f" {self.logprobs_T.size} logprobs, {self.versions_T.size} versions"
            )
        if wrong := fault(self.sampling_mask, self.ids_T):
            raise ValueError(wrong)
        return self

    def __len__(self) -> int:
        return int(self.ids_T.size)

    def prompted(self, ids: Sequence[int]) -> "Tokens":
        """These, and what nobody sampled behind them. Nothing is validated."""
        n, mask = len(ids), self.sampling_mask
        return Tokens.model_construct(
            ids_T=np.append(self.ids_T, np.array(ids, np.int32)),
            mask_T=np.append(self.mask_T, np.zeros(n, np.uint8)),
            logprobs_T=np.append(self.logprobs_T, np.zeros(n, np.float32)),
            versions_T=np.append(self.versions_T, np.full(n, NOT_SAMPLED, np.int32)),
            sampling_mask=None if mask is None else mask.extended(n, SamplingMask.none(0)),
        )

    @property
    def size_bytes(self) -> int:
        """What they weigh in a message."""
        arrays = [self.ids_T, self.mask_T, self.logprobs_T, self.versions_T]
        if self.sampling_mask is not None:
            arrays += [self.sampling_mask.sizes_N, self.sampling_mask.ids_S]
        return sum(array.nbytes for array in arrays)

    @property
    def n_sampled(self) -> int:
        return int(self.mask_T.sum())

    @property
    def sampled_spans(self) -> list[slice]:
        """Where the tokens of each of the policy's turns lie: the runs of 1 in the mask."""
        edges_T = np.diff(np.concatenate([[0], self.mask_T.astype(np.int8), [0]]))
        starts, ends = np.flatnonzero(edges_T == 1).tolist(), np.flatnonzero(edges_T == -1).tolist()
        return [slice(start, end) for start, end in zip(starts, ends, strict=True)]

    @property
    def has_every_mask(self) -> bool:
        """Whether the set that it was sampled from is known of each sampled token."""
        mask = self.sampling_mask
        return mask is not None and bool((mask.sizes_N[self.mask_T == 1] > 0).all())

    @property
    def newest_version(self) -> int:
        """That sampled any of the tokens; -1 where none was sampled."""
        return int(self.versions_T.max(initial=-1))


NO_TOKENS = Tokens(
    ids_T=np.zeros(0, np.int32),
    mask_T=np.zeros(0, np.uint8),
    logprobs_T=np.zeros(0, np.float32),
    versions_T=np.zeros(0, np.int32),
)


class Turn(Frozen):
    """What the environment answered to one action."""

    reward: float | None = None
    """None where the environment gave no reward at this turn, which is not a reward of 0."""
    digest: str
    """Digest of the observation; a rebuilt environment must produce the same one."""
    metrics: dict[str, float] = Field(default_factory=dict)
    is_cut: bool = False
    """The action was cut at `sampling.max_tokens`."""
    branch: int = Field(default=0, ge=0)
    """The conversation that the action belongs to."""


def _n_old_messages(transcript: "Transcript") -> int:
    """All up to the last action, which is new where it ends the list."""
    messages = transcript.messages
    n_after = next((n for n, m in enumerate(reversed(messages)) if m.is_action), len(messages))
    return len(messages) - max(1, n_after)


def _n_messages(branch: "Branch") -> int:
    """All: nothing more is said in it."""
    return len(branch.messages)


def _n_old_turns(transcript: "Transcript") -> int:
    """All but the last, which is new until it was answered by an action."""
    messages = transcript.messages
    is_answered = bool(messages) and messages[-1].is_action
    return len(transcript.turns) - (not is_answered)


class Branch(Frozen):
    """One of an episode's conversations, while it is not the one that goes on."""

    number: int = Field(ge=0)
    messages: Annotated[tuple[ChatMessage, ...], GrowsInMessages(_n_messages)]
    n_rendered: int = Field(ge=0)
    tokens: Annotated[Tokens, OneSpan()]


class Transcript(Frozen):
    """The whole of an episode so far.

    It is one conversation, unless the environment began others, or went on from an earlier turn of one:
    then each is a branch, with its own tokens. What a branch has from another one is quoted there and
    its tokens count as not sampled, so each token that was sampled is in one branch.
    """

    messages: Annotated[tuple[ChatMessage, ...], GrowsInMessages(_n_old_messages)] = ()
    """Of the branch that goes on; so are `n_rendered` and `tokens`."""
    n_rendered: int = Field(default=0, ge=0)
    """How many of the messages are already in `tokens`; the rest is new to the engine."""
    tokens: Annotated[Tokens, OneSpan()] = Field(default_factory=lambda: NO_TOKENS)
    tokenizer: Annotated[str, Field(max_length=64)] = ""
    """Digest of the vocabulary that the token ids are of; empty where no sampler has made any."""
    reset_digest: str = ""
    """Digest of the first observation."""
    task_number: int | None = Field(default=None, ge=0)
    """Which task of the split it is, in the order of the data; None where the environment makes its own."""
    task_id: TaskId | None = None
    """What the environment calls the task; None where it doesn't (`EpisodeEnded.task_id`)."""
    category: Annotated[str, Field(min_length=1, max_length=MAX_CATEGORY_CHARS)] | None = None
    """What kind of task it is, as the environment says."""
    turns: Annotated[tuple[Turn, ...], GrowsInMessages(_n_old_turns)] = ()
    times: EpisodeTimes = NO_TIMES
    branch: int = Field(default=0, ge=0)
    """Number of the branch that goes on."""
    set_aside: tuple[Branch, ...] = ()
    """The others."""

    @property
    def branches(self) -> list[Branch]:
        """All of them, in the order of their numbers."""
        if not self.set_aside:
            return [self._current]
        return sorted((*self.set_aside, self._current), key=lambda branch: branch.number)

    @property
    def _current(self) -> Branch:
        return Branch.model_construct(
            number=self.branch,
            messages=self.messages,
            n_rendered=self.n_rendered,
            tokens=self.tokens,
        )

    @property
    def sequences(self) -> list[Tokens]:
        """The tokens of each branch."""
        return [branch.tokens for branch in self.branches]

    @property
    def n_sampled(self) -> int:
        """Tokens, in all branches."""
        return sum(tokens.n_sampled for tokens in self.sequences)

    @property
    def newest_version(self) -> int:
        """That sampled any of the tokens; -1 where none was sampled."""
        return max(tokens.newest_version for tokens in self.sequences)

    @property
    def all_messages(self) -> Iterator[ChatMessage]:
        """Of all branches."""
        return chain(self.messages, *(branch.messages for branch in self.set_aside))

    @property
    def n_chars(self) -> int:
        """Of the messages of all branches."""
        return sum(m.n_chars for m in self.all_messages)

    @property
    def n_actions(self) -> int:
        """What the policy said, in all branches."""
        return sum(m.role == "assistant" and not m.is_quoted for m in self.all_messages)

    @property
    def size_bytes(self) -> int:
        """What the messages and tokens of all branches weigh in a message."""
        return sum(m.size_bytes for m in self.all_messages) + self._tokens_bytes

    @property
    def most_bytes(self) -> int:
        """No less than `size_bytes`, and found without weighing the words."""
        n_messages = len(self.messages) + sum(len(branch.messages) for branch in self.set_aside)
        words = _MOST_CHAR_BYTES * self.n_chars + _QUOTES_BYTES * n_messages
        return words + self._tokens_bytes

    @property
    def _tokens_bytes(self) -> int:
        aside = sum(branch.tokens.size_bytes for branch in self.set_aside)
        return self.tokens.size_bytes + aside

    def turns_of(self, branch: int) -> list[int]:
        """Which actions of the episode, counted from 0, were said in this branch."""
        said = [n for n, turn in enumerate(self.turns) if turn.branch == branch]
        if branch != self.branch:
            return said
        is_unanswered = sum(m.is_action for m in self.messages) > len(said)
        return [*said, len(self.turns)] if is_unanswered else said

    @property
    def actions(self) -> list[str]:
        """What the policy said, turn by turn."""
        if not self.set_aside:
            return [m.content for m in self.messages if m.is_action]
        said: dict[int, str] = {}
        for branch in self.branches:
            words = (m.content for m in branch.messages if m.is_action)
            said |= zip(self.turns_of(branch.number), words, strict=False)
        return [said[turn] for turn in sorted(said)]

    @property
    def reward(self) -> float:
        """The sum of the rewards that were given."""
        return sum(t.reward for t in self.turns if t.reward is not None)
