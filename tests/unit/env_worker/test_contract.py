"""What user code returned, held against the contract."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from warren.environment import ChatMessage, Image, PromptTokens, StepResult, TaskError
from warren_env_worker.host.child import contract
from warren_env_worker.host.refusal import Refusal, blame
from warren_schemas.episode import FailureKind

USER = ChatMessage(role="user", content="hello")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(25)
SEEN = ChatMessage(role="user", content="?", images=(Image.of(PNG),))
"""1 character and 44 of base64."""


def refused(function: Callable[[], object]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        function()
    return caught.value


def test_texts_and_messages_become_messages() -> None:
    assert contract.messages("", "step()", 10) == []
    assert contract.messages("hi", "step()", 10) == [("user", "hi")]
    assert contract.messages([USER], "step()", 10) == [("user", "hello")]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (None, "reset() must return a str, a list of ChatMessage or PromptTokens; it returned NoneType"),
        (7, "reset() must return a str, a list of ChatMessage or PromptTokens; it returned int"),
        ([USER, "x"], "reset() must return a list of ChatMessage; it returned a list with str"),
        ("x" * 11, "reset() returned an observation of 11 characters; Limits.observation_chars of its class is 10"),
        ([USER] * 1001, "reset() returned 1001 messages; 1000 can be sent"),
        ([ChatMessage(role="assistant", content="I")],
         ("reset() returned a message of the role assistant, the policy's own; with is_quoted=True"
          " it is shown as words that the policy did not say here")),
        ([SEEN], ("reset() returned an observation of 45 characters, its images in base64 among"
         " them; Limits.observation_chars of its class is 10")),
    ],
)  # fmt: skip
def test_other_observations_are_refused(shown: object, expected: str) -> None:
    refusal = refused(lambda: contract.messages(shown, "reset()", 10))
    assert refusal.kind is FailureKind.ENVIRONMENT_ERROR
    assert refusal.reason == expected


def test_tokens_are_shown_in_place_of_messages() -> None:
    tokens = PromptTokens(np.array([3, 0], np.int32))  # pyright: ignore[reportArgumentType]
    assert contract.observation(tokens, "step()", 10) == ([], [3, 0])
    assert contract.observation("hi", "step()", 10) == ([("user", "hi")], [])
    assert len({contract.digest([], ids=ids) for ids in ([], [3], [3, 0])}) == 3


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([], "reset() returned PromptTokens without a token; show one or more"),
        ([1] * 11, "reset() returned 11 tokens; Limits.observation_chars of its class is 10"),
        ([-1] * 11, "reset() returned 11 tokens; Limits.observation_chars of its class is 10"),
        (["1"], "reset() must return numbers as PromptTokens; it returned str"),
        ([-1], "reset() returned the token -1; expected 0 to 2147483647"),
        ([2**31], "reset() returned the token 2147483648; expected 0 to 2147483647"),
    ],
)
def test_other_tokens_are_refused(ids: Sequence[int], expected: str) -> None:
    refusal = refused(lambda: contract.observation(PromptTokens(ids), "reset()", 10))
    assert refusal.kind is FailureKind.ENVIRONMENT_ERROR
    assert refusal.reason == expected


@pytest.mark.parametrize(
    ("task_id", "expected"),
    [
        (3, "task_id must be a str or None; it is int"),
        ("", "the task_id has 0 characters; 1 to 256 can be sent"),
        ("x" * 257, "the task_id has 257 characters; 1 to 256 can be sent"),
    ],
)
def test_an_id_of_a_task_is_a_short_text(task_id: object, expected: str) -> None:
    assert contract.task_id(None) is None
    assert contract.task_id("x" * 256) == "x" * 256
    assert refused(lambda: contract.task_id(task_id)).reason == expected


@pytest.mark.parametrize(
    ("category", "expected"),
    [
        (3, "category must be a str or None; it is int"),
        ("", "the category has 0 characters; 1 to 128 can be sent"),
        ("x" * 129, "the category has 129 characters; 1 to 128 can be sent"),
    ],
)
def test_a_category_is_a_short_text(category: object, expected: str) -> None:
    assert contract.category(None) is None
    assert contract.category("x" * 128) == "x" * 128
    assert refused(lambda: contract.category(category)).reason == expected


def test_images_come_with_their_message_and_count_in_its_digest() -> None:
    (message,) = contract.messages([SEEN], "reset()", 45)
    (image,) = SEEN.images
    assert message == ("user", "?", [("image/png", image.base64)])
    assert contract.digest([message]) != contract.digest([("user", "?")])


def test_digests_tell_observations_apart() -> None:
    digests = {
        contract.digest([("user", "a")]),
        contract.digest([("tool", "a")]),
        contract.digest([("user", "a"), ("user", "b")]),
        contract.digest([("user", "ab")]),
        contract.digest([]),
    }
    assert len(digests) == 5
    assert all(len(digest) == 16 for digest in digests)


def test_the_digest_is_pinned() -> None:
    """Transcripts travel between workers of different versions."""
    assert contract.digest([("user", "?")]) == PINNED


def test_text_that_is_no_unicode_is_refused() -> None:
    assert "can't be sent" in refused(lambda: contract.digest([("user", "\ud800")])).reason


@pytest.mark.parametrize("value", [1, 1.0, True, np.float32(1.0), np.int64(1)])
def test_every_number_is_a_reward(value: object) -> None:
    assert contract.reward(value) == 1.0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, "1", [1.0], 1j])
def test_nothing_else_is_a_reward(value: object) -> None:
    refusal = refused(lambda: contract.reward(value))
    assert refusal.kind is FailureKind.INVALID_REWARD
    assert "\n" not in refusal.reason


def test_no_reward_is_no_reward_of_zero() -> None:
    assert contract.reward(None) is None


@pytest.mark.parametrize("value", [{"x": float("nan")}, {"x": "1"}, {3: 1.0}, [1.0], {"\ud800": 1}])
def test_metrics_are_finite_numbers_with_names(value: object) -> None:
    assert refused(lambda: contract.metrics(value)).kind is FailureKind.ENVIRONMENT_ERROR


def test_only_a_step_result_is_one() -> None:
    result = StepResult("x")
    assert contract.step_result(result) is result
    reason = refused(lambda: contract.step_result(("x", 1.0, True))).reason
    assert reason == "step() must return a StepResult; it returned tuple"


PINNED = "529e0ded5c319dde"


def test_a_task_that_can_t_be_played_is_not_tried_again() -> None:
    refusal = blame(TaskError("row 3 has no answer"), "tests")
    assert (refusal.kind, refusal.reason) == (FailureKind.ENVIRONMENT_ERROR, "row 3 has no answer")
    assert not refusal.is_retryable


def test_rewards_of_earlier_actions_are_numbers_of_those() -> None:
    assert contract.earlier({1: 0.5, 2: 1}, 3) == [(1, 0.5), (2, 1.0)]
    for wrong, reason in (
        ([0.5], "step() must return earlier as a dict; it returned list"),
        ({3: 0.5}, "the reward of an earlier action 3; 2 came before this one"),
        ({"1": 0.5}, "the reward of an earlier action '1'"),
        ({1: None}, "returned the reward None for an earlier action"),
        ({1: float("nan")}, "returned the reward nan"),
    ):
        assert reason in refused(lambda wrong=wrong: contract.earlier(wrong, 3)).reason
