"""A recorded episode as a TrainingTrace: a turn for each of the policy's, with the tokens that it was shown and that it sampled.

Invariant: tokens, masks, logprobs and the reward are those that were recorded, bit by bit. What a trace has no place for lies
under `metadata.warren` of its turns, from which `reading` makes the same row again.
"""

from collections.abc import Sequence

import orjson

from warren_schemas.episode import Completed, EpisodeEnded
from warren_schemas.exports.rows import Row, row
from warren_schemas.http import TrajectoryView
from warren_schemas.traces.own import ELSEWHERE, OWN
from warren_schemas.transcript import Branch, ChatMessage, Tokens, Transcript

_JSON = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE


def trace_line(view: TrajectoryView) -> bytes | None:
    """The trace as a line of JSON; None where there can be none.

    An episode that failed has no reward, one in which nothing was sampled no turn, and OpenEnv takes no turn without a prompt.
    """
    item = view.trajectory
    branches = item.transcript.branches
    is_whole = isinstance(item.outcome, Completed) and item.transcript.n_sampled > 0
    if not is_whole or not all(_is_prompted(branch.tokens) for branch in branches):
        return None
    turns = [turn for branch in branches for turn in _turns(item, branch)]
    own = [_own(branch, span) for branch in branches for span in branch.tokens.sampled_spans]
    own[0] |= {"episode": _episode(view), "tails": [_tail(branch.tokens) for branch in branches]}
    numbered = [
        {
            "node_id": f"{item.envelope.episode}/{number}",
            **turn,
            "metadata": {"index": number, **_told(item), OWN: ours},
        }
        for number, (turn, ours) in enumerate(zip(turns, own, strict=True))
    ]
    return orjson.dumps({"schema_version": 1, "turns": numbered}, option=_JSON)


def _is_prompted(tokens: Tokens) -> bool:
    return not len(tokens) or tokens.mask_T[0] == 0


def _turns(item: EpisodeEnded, branch: Branch) -> list[Row]:
    spans = branch.tokens.sampled_spans
    said = _said(item.transcript, branch, len(spans))
    return [_turn(branch.tokens, span) | words for span, words in zip(spans, said, strict=True)]


def _turn(tokens: Tokens, span: slice) -> Row:
    return {
        "prompt_token_ids": tokens.ids_T[: span.start],
        "completion_token_ids": tokens.ids_T[span],
        "per_token_logps": tokens.logprobs_T[span],
        "loss_mask": [0] * span.start + [1] * (span.stop - span.start),
    }


def _said(transcript: Transcript, branch: Branch, n_turns: int) -> Sequence[Row]:
    """Each turn's words; none where they can't be told apart, as where two turns lie end to end."""
    places = [n for n, message in enumerate(branch.messages) if message.is_action]
    if len(places) != n_turns:
        return [Row()] * n_turns
    answered = [n for n in transcript.turns_of(branch.number) if n < len(transcript.turns)]
    is_cut = [transcript.turns[n].is_cut for n in answered] + [False] * n_turns
    return [
        _words(branch.messages, place, is_cut=cut)
        for place, cut in zip(places, is_cut, strict=False)
    ]


def _words(messages: Sequence[ChatMessage], place: int, *, is_cut: bool) -> Row:
    answer = {"message": _message(messages[place]), "finish_reason": "length" if is_cut else "stop"}
    return {
        "request": {"messages": [_message(message) for message in messages[:place]]},
        "response": {"choices": [answer]},
    }


def _message(message: ChatMessage) -> Row:
    return {"role": message.role, "content": message.content}


def _told(item: EpisodeEnded) -> Row:
    """What other trainers ask of each turn: OpenEnv mirrors the episode's reward on all."""
    reward = item.outcome.reward if isinstance(item.outcome, Completed) else None
    ways = {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_tokens"}
    return {
        "reward": reward,
        "model": item.spec.policy.base_model,
        "sampling_params": item.spec.sampling.model_dump(include=ways),
    }


def _own(branch: Branch, span: slice) -> Row:
    tokens = branch.tokens
    ours: Row = {"branch": branch.number, "versions": tokens.versions_T[span]}
    if (mask := tokens.sampling_mask) is None:
        return ours
    first, sizes = int(mask.sizes_N[: span.start].sum()), mask.sizes_N[span]
    return ours | {"mask_sizes": sizes, "mask_ids": mask.ids_S[first : first + int(sizes.sum())]}


def _episode(view: TrajectoryView) -> Row:
    return {name: value for name, value in row(view).items() if name not in ELSEWHERE}


def _tail(tokens: Tokens) -> Sequence[int]:
    """What stands behind the last token that was sampled."""
    spans = tokens.sampled_spans
    return tokens.ids_T[spans[-1].stop if spans else 0 :].tolist()
