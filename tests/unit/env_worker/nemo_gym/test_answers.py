"""Why a resource server refuses a row, as its framework says it."""

import json

import pytest

from warren.environment import TaskError
from warren_env_worker.environments.nemo_gym.answers import Answer, reason
from warren_env_worker.host.refusal import one_line
from warren_env_worker.permissions.secrets import for_run

KEY = "key-0123456789-abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize("detail", [KEY * 13, [{"loc": ["body", "x"], "msg": KEY * 13}]])
def test_secrets_are_taken_out_of_a_long_refusal_whole(detail: object) -> None:
    said = reason(Answer(422, json.dumps({"detail": detail}).encode()))
    assert said is not None
    with for_run({"KEY": KEY}):
        told = one_line(TaskError(said))
    assert told.endswith("<KEY>" * 13)


@pytest.mark.parametrize("content", [b"no JSON", b"{}", b'{"detail": []}'])
def test_an_answer_of_another_form_says_nothing(content: bytes) -> None:
    assert reason(Answer(422, content)) is None
