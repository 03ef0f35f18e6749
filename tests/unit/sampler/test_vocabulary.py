"""Whose token ids these are: told by a digest of what they stand for."""

from pathlib import Path

import numpy as np
from tests.support.factories import make_generate
from tests.support.tokenizers import CHATML, LLAMA3, byte_tokenizer

from warren_gpu_worker.base_models.vocabulary import folder_digest, vocabulary_digest
from warren_gpu_worker.sampler.messages import FinishedTurn
from warren_gpu_worker.sampler.supervisor.turn_items import judged, step_of
from warren_schemas.episode import Failed, FinishReason


def test_tokenizers_are_the_same_where_their_ids_stand_for_the_same_texts(tmp_path: Path) -> None:
    ours = byte_tokenizer(CHATML)
    digest = vocabulary_digest(ours)
    assert vocabulary_digest(byte_tokenizer(LLAMA3)) == digest, "a template is no vocabulary"
    ours.save_pretrained(tmp_path)  # pyright: ignore[reportUnknownMemberType]
    assert folder_digest(str(tmp_path)) == digest

    ours.add_tokens(["<new>"])  # pyright: ignore[reportUnknownMemberType]
    assert vocabulary_digest(ours) != digest


def test_a_folder_without_a_tokenizer_has_no_digest(tmp_path: Path) -> None:
    assert folder_digest(str(tmp_path)) == ""


def test_a_transcript_tells_its_vocabulary_and_is_of_one_alone() -> None:
    item = make_generate()
    turn = _turn("a")
    assert step_of(item, turn, None).transcript.tokenizer == "a"

    longer = item.model_copy(
        update={"transcript": item.transcript.model_copy(update={"tokenizer": "a"})}
    )
    assert judged(longer, turn) is turn
    failed = judged(longer, _turn("b"))
    assert isinstance(failed, Failed)
    assert "have different tokenizers: a and b" in failed.reason


def _turn(tokenizer: str) -> FinishedTurn:
    ids_T, none_T = np.array([5], np.int32), np.zeros(0, np.int32)
    logprobs_T = np.array([-0.5], np.float32)
    return FinishedTurn(1, none_T, ids_T, logprobs_T, ids_T, "5", FinishReason.STOP, tokenizer)
