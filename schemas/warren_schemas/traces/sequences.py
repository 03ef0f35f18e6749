"""The turns of a trace, laid into the conversations that they are of, as the token columns of an export's row.

Invariant: each completion stands in one conversation alone, behind exactly the prompt that it was sampled from; learned is what its
`loss_mask` says. A token that is not learned has no logprob and no version.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from warren_schemas.exports.rows import Row
from warren_schemas.traces.own import OwnTurn
from warren_schemas.traces.shape import NotATrace, TrainingTurn
from warren_schemas.transcript import NOT_SAMPLED

_Set = Sequence[int]
"""What a token was sampled from; empty where nothing was cut."""


@dataclass
class Conversation:
    ids: list[int] = field(default_factory=list[int])
    mask: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    versions: list[int] = field(default_factory=list[int])
    sets: list[_Set] = field(default_factory=list[_Set])

    def show(self, ids: Sequence[int]) -> None:
        """Tokens that nobody sampled."""
        n = len(ids)
        self.ids += ids
        self.mask += [0] * n
        self.logprobs += [0.0] * n
        self.versions += [NOT_SAMPLED] * n
        self.sets += [()] * n

    def sample(self, turn: TrainingTurn, versions: Iterable[int], sets: Iterable[_Set]) -> None:
        """The turn's completion; `versions` and `sets` are of its tokens."""
        mask = turn.completion_mask
        self.ids += turn.completion_token_ids
        self.mask += mask
        self.logprobs += [p if m else 0.0 for p, m in zip(turn.per_token_logps, mask, strict=True)]
        self.versions += [v if m else NOT_SAMPLED for v, m in zip(versions, mask, strict=True)]
        self.sets += [kept if m else () for kept, m in zip(sets, mask, strict=True)]


def followed(conversations: Sequence[Conversation], prompt: Sequence[int]) -> int:
    """The one that goes on with this prompt: the longest that it begins with; else a new one."""
    going_on = [
        (len(each.ids), number)
        for number, each in enumerate(conversations)
        if each.ids == prompt[: len(each.ids)]
    ]
    return max(going_on)[1] if going_on else len(conversations)


def of_others(turns: Sequence[TrainingTurn]) -> tuple[list[Conversation], list[int]]:
    """By their tokens, and which of them each turn is of. Who samples for OpenEnv names no policy version: theirs is 0."""
    found: list[Conversation] = []
    numbers: list[int] = []
    for turn in turns:
        number = followed(found, turn.prompt_token_ids)
        if number == len(found):
            found.append(Conversation())
        n = len(turn.completion_token_ids)
        found[number].show(turn.prompt_token_ids[len(found[number].ids) :])
        found[number].sample(turn, [0] * n, [()] * n)
        numbers.append(number)
    return found, numbers


def of_ours(
    turns: Sequence[TrainingTurn], own: Sequence[OwnTurn], tails: Sequence[Sequence[int]]
) -> list[Conversation]:
    """As they were recorded, whose tails tell how many there were. Raises `NotATrace`."""
    found = [Conversation() for _ in tails]
    for number, (turn, ours) in enumerate(zip(turns, own, strict=True)):
        _require_aligned(number, turn, ours, len(found))
        conversation = found[ours.branch]
        if turn.prompt_token_ids[: len(conversation.ids)] != conversation.ids:
            raise NotATrace(
                f"turns.{number}.prompt_token_ids: they don't begin with the tokens of the turns before it"
            )
        conversation.show(turn.prompt_token_ids[len(conversation.ids) :])
        conversation.sample(turn, ours.versions, _sets(ours))
    for conversation, tail in zip(found, tails, strict=True):
        conversation.show(tail)
    return found


def _require_aligned(number: int, turn: TrainingTurn, ours: OwnTurn, n_branches: int) -> None:
    n = len(turn.completion_token_ids)
    is_cut = bool(ours.mask_sizes)
    if (
        len(ours.versions) != n
        or (is_cut and len(ours.mask_sizes) != n)
        or sum(ours.mask_sizes) != len(ours.mask_ids)
        or ours.branch >= n_branches
    ):
        raise NotATrace(
            f"turns.{number}.metadata.warren: it is of another turn than this one of {n} tokens"
        )


def _sets(ours: OwnTurn) -> Sequence[_Set]:
    if not ours.mask_sizes:
        return [()] * len(ours.versions)
    ends = list(accumulate(ours.mask_sizes, initial=0))
    return [ours.mask_ids[start:end] for start, end in pairwise(ends)]


def columns(conversations: Sequence[Conversation]) -> Row:
    """Of all, end to end."""
    sets = [kept for each in conversations for kept in each.sets]
    is_cut = any(sets)
    return {
        "branch_n_tokens": [len(each.ids) for each in conversations],
        "ids_T": [token for each in conversations for token in each.ids],
        "mask_T": [bit for each in conversations for bit in each.mask],
        "logprobs_T": [logprob for each in conversations for logprob in each.logprobs],
        "versions_T": [version for each in conversations for version in each.versions],
        "sampling_mask_sizes_T": [len(kept) for kept in sets] if is_cut else [],
        "sampling_mask_ids": [token for kept in sets for token in kept],
    }
