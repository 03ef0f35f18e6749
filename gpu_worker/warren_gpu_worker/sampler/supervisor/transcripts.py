"""What the engine needs of a transcript, and what a finished turn makes of it: the same, longer.

Nothing is validated again here: the old part came through the queue, the new one is the engine's,
which promises finite logprobs of at most 0 and arrays of one length. Who receives it validates all.
"""

import numpy as np

from warren_gpu_worker.sampler.messages import FinishedTurn, Images, Message
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.transcript import NOT_SAMPLED, ChatMessage, Tokens, Transcript


def new_messages(transcript: Transcript) -> tuple[Message, ...]:
    """Those that are not among the tokens yet."""
    return tuple(_packed(message) for message in transcript.messages[transcript.n_rendered :])


def _packed(message: ChatMessage) -> Message:
    if message.images:
        return message.role, message.content, len(message.images)
    return message.role, message.content


def images_of(transcript: Transcript) -> Images | None:
    """All its images, or None when it has none."""
    files = tuple(image.base64 for message in transcript.messages for image in message.images)
    return Images(files, transcript.tokens.mask_T.tobytes()) if files else None


def extended(transcript: Transcript, turn: FinishedTurn) -> Transcript:
    """The transcript with the turn at its end; all its messages are rendered then."""
    words = ChatMessage.model_construct(role="assistant", content=turn.text)
    messages = (*transcript.messages, words)
    return transcript.model_copy(
        update={
            "messages": messages,
            "n_rendered": len(messages),
            "tokens": _appended(transcript.tokens, turn),
            "tokenizer": turn.tokenizer,
            "times": transcript.times.plus(sampling_s=turn.sampling_s, sampling_gpu_s=turn.gpu_s),
        }
    )


def _appended(tokens: Tokens, turn: FinishedTurn) -> Tokens:
    n_old, n_prompt, n_sampled = len(tokens), turn.prompt_ids_T.size, turn.ids_T.size
    start = n_old + n_prompt
    mask_T = np.zeros(start + n_sampled, np.uint8)
    mask_T[:n_old] = tokens.mask_T
    mask_T[start:] = 1
    logprobs_T = np.zeros(mask_T.size, np.float32)
    logprobs_T[:n_old] = tokens.logprobs_T
    logprobs_T[start:] = turn.logprobs_T
    versions_T = np.full(mask_T.size, NOT_SAMPLED, np.int32)
    versions_T[:n_old] = tokens.versions_T
    versions_T[start:] = turn.versions_T
    return Tokens.model_construct(
        ids_T=np.concatenate([tokens.ids_T, turn.prompt_ids_T, turn.ids_T]),
        mask_T=mask_T,
        logprobs_T=logprobs_T,
        versions_T=versions_T,
        sampling_mask=_mask(tokens, turn),
    )


def _mask(tokens: Tokens, turn: FinishedTurn) -> SamplingMask | None:
    if turn.sampling_mask is None:
        return None
    older = tokens.sampling_mask or SamplingMask.none(len(tokens))
    return older.extended(turn.prompt_ids_T.size, turn.sampling_mask)
