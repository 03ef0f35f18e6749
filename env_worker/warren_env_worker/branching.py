"""Branches: an environment goes on from an earlier turn of its episode, or begins a new conversation.

A turn that another conversation follows already is where a new branch begins: it has what was said and
sampled up to there, quoted and not to be trained on again. Invariants: nothing that was sampled is
tokenized anew; each sampled token is in the mask of one branch.
"""

import numpy as np

from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.transcript import (
    NO_TOKENS,
    NOT_SAMPLED,
    Branch,
    ChatMessage,
    Tokens,
    Transcript,
)

_NOTHING = Branch(number=0, messages=(), n_rendered=0, tokens=NO_TOKENS)


class NoSuchTurn(ValueError):
    """There is nothing to go on from; says why."""


def gone_back(transcript: Transcript, after: int) -> Transcript:
    """The transcript, going on behind its action number `after`, counted from 1; 0 is before all of them.

    Raises `NoSuchTurn`.
    """
    if not 0 <= after <= len(transcript.turns):
        raise NoSuchTurn(
            f"there is no turn {after} to go on from; there were {len(transcript.turns)}"
        )
    if after == 0:
        return _with(transcript, _NOTHING)
    branch = transcript.branches[transcript.turns[after - 1].branch]
    nth = transcript.turns_of(branch.number).index(after - 1)
    n_messages = [n for n, m in enumerate(branch.messages, 1) if m.is_action][nth]
    if n_messages == len(branch.messages):
        return _resumed(transcript, branch)
    ends = _ends(branch.tokens)
    if len(ends) != len(transcript.turns_of(branch.number)):
        raise NoSuchTurn("the policy's turns can't be told apart in its tokens")
    n_tokens = ends[nth]
    quoted = tuple(_quoted(message) for message in branch.messages[:n_messages])
    tokens = _not_sampled(branch.tokens, n_tokens)
    return _with(
        transcript, Branch(number=0, messages=quoted, n_rendered=n_messages, tokens=tokens)
    )


def _with(transcript: Transcript, branch: Branch) -> Transcript:
    """It goes on with a new branch."""
    return _going_on(transcript, branch, len(transcript.branches), transcript.branches)


def _resumed(transcript: Transcript, branch: Branch) -> Transcript:
    if branch.number == transcript.branch:
        return transcript
    others = [other for other in transcript.branches if other.number != branch.number]
    return _going_on(transcript, branch, branch.number, others)


def _going_on(
    transcript: Transcript, branch: Branch, number: int, others: list[Branch]
) -> Transcript:
    return transcript.model_copy(
        update={
            "messages": branch.messages,
            "n_rendered": branch.n_rendered,
            "tokens": branch.tokens,
            "branch": number,
            "set_aside": tuple(others),
        }
    )


def _ends(tokens: Tokens) -> list[int]:
    """Where the policy's turns end: each is a run of sampled tokens."""
    falls_T = np.diff(tokens.mask_T.astype(np.int8), append=np.int8(0)) == -1
    return [int(end) + 1 for end in np.flatnonzero(falls_T)]


def _quoted(message: ChatMessage) -> ChatMessage:
    return message.model_copy(update={"is_quoted": True}) if message.is_action else message


def _not_sampled(tokens: Tokens, n_tokens: int) -> Tokens:
    """The first of them, as a part of a prompt."""
    return Tokens.model_construct(
        ids_T=tokens.ids_T[:n_tokens],
        mask_T=np.zeros(n_tokens, np.uint8),
        logprobs_T=np.zeros(n_tokens, np.float32),
        versions_T=np.full(n_tokens, NOT_SAMPLED, np.int32),
        sampling_mask=None if tokens.sampling_mask is None else SamplingMask.none(n_tokens),
    )
