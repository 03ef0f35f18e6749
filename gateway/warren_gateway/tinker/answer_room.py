"""How many tokens an answer can tell of: it travels as one message, and what no message carries would never come.

What is sampled is not known before, and has the rest of the message.
"""

from warren_gateway.inference.sampler_requests import Question
from warren_gateway.tinker.samples.answering import CantSample
from warren_schemas.codec.frame import MAX_MESSAGE_BYTES

ROOM_BYTES = MAX_MESSAGE_BYTES - 1024 * 1024
_TOKEN_BYTES, _LOGPROB_BYTES, _ALTERNATIVE_BYTES = 13, 4, 8
"""Of a token its id, mask, logprob and version; of one in its stead an id and a logprob."""


def require_room(question: Question, n_tokens: int) -> None:
    """For what is asked of the tokens that it goes on from. Raises `CantSample`."""
    options = question.options
    if options is None or options.n_top is None:
        return
    n_others = options.n_top_prompt + options.n_drawn_prompt
    each = _TOKEN_BYTES + _LOGPROB_BYTES + _ALTERNATIVE_BYTES * n_others
    n_targets = 0 if options.targets is None else options.targets.target_ids_S.size
    most = max(ROOM_BYTES - _image_bytes(question) - _LOGPROB_BYTES * n_targets, 0) // each
    if n_tokens > most:
        raise CantSample(
            f"with what is asked of each, an answer can tell of {most} tokens, and there are {n_tokens}: ask for less"
            " (topk_prompt_logprobs, topk_sample_logprobs, prompt_alt_tokens_k), or of a shorter prompt"
        )


def _image_bytes(question: Question) -> int:
    messages = question.transcript.messages
    return sum(len(image.base64) for message in messages for image in message.images)
