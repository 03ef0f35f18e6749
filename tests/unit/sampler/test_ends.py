"""The end of an episode whose next turn a sampler can't take."""

import numpy as np
from tests.support.factories import WORKER, make_generate, make_tokens, make_transcript

from warren_gpu_worker.sampler.engines.port import Refusal
from warren_gpu_worker.sampler.supervisor.turn_items import end_of, judged
from warren_schemas.episode import Completed, EpisodeEnded, FailureKind, Generate, StopReason
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.transcript import ChatMessage, Tokens

N_SHOWN = 1000


def asked_in_tokens(before: Tokens) -> Generate:
    """Behind an action that was rewarded."""
    transcript = make_transcript()
    told = ChatMessage(role="user", content="", n_tokens=N_SHOWN)
    shown = {
        "messages": (*transcript.messages, told),
        "n_rendered": 3,
        "tokens": before.prompted(range(N_SHOWN)),
    }
    return make_generate(transcript=transcript.model_copy(update=shown), is_plain=True)


def outgrown(item: Generate) -> EpisodeEnded:
    outcome = judged(item, Refusal(1, FailureKind.CONTEXT_LENGTH, "too long"))
    assert isinstance(outcome, Completed) and outcome.stop is StopReason.MAX_TOTAL_TOKENS
    return end_of(item, outcome, WORKER, taken_s=1.0, now_s=2.0)


def test_what_is_recorded_ends_before_the_tokens_that_did_not_fit() -> None:
    before = make_tokens()
    ended = outgrown(asked_in_tokens(before)).transcript
    assert ended.tokens.ids_T.tolist() == before.ids_T.tolist()
    assert ended.tokens.mask_T.tolist() == before.mask_T.tolist()
    assert ended.tokens.logprobs_T.tolist() == before.logprobs_T.tolist()
    assert ended.tokens.versions_T.tolist() == before.versions_T.tolist()
    assert (ended.n_rendered, ended.messages[-1].n_tokens) == (2, N_SHOWN)


def test_so_does_what_it_was_sampled_from() -> None:
    sets = [np.array(ids, np.int32) for ids in ([], [], [], [51, 9], [68], [85, 3])]
    before = make_tokens(sampling_mask=SamplingMask.of(sets))
    mask = outgrown(asked_in_tokens(before)).transcript.tokens.sampling_mask
    assert mask is not None
    assert mask.sizes_N.tolist() == [0, 0, 0, 2, 1, 2]
    assert mask.ids_S.tolist() == [51, 9, 68, 85, 3]


def test_a_chat_that_outgrows_its_tokens_keeps_them_all() -> None:
    item = make_generate()
    assert outgrown(item).transcript is item.transcript
