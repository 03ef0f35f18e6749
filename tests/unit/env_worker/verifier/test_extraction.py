"""From words to answers: forms, the last one counts, hostile texts cost little."""

import pytest

from warren.host_services.verdict import AnswerForm
from warren_env_worker.verifier.extraction import extract

AUTO = [
    (r"so \boxed{42}.", "42"),
    (r"try \boxed{8}, no, \boxed{7}", "7"),
    (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
    (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
    (r"\boxed 7 apples", "7"),
    (r"\fbox{3}", "3"),
    (r"\boxed{7} and \boxed{8", "7"),
    (r"\boxed{}", None),
    (r"\boxed{ }", None),
    ("She has 3 left.\n#### 1,234", "1,234"),
    ("#### 1\n#### 2", "2"),
    ("<answer>7</answer>", "7"),
    (r"<answer>so \boxed{7}</answer> or \boxed{8}", "7"),
    ("<ANSWER> 7 </answer>", "7"),
    ("<answer>7", None),
    (r"<think>\boxed{8}</think> it is \boxed{7}", "7"),
    (r"<think>\boxed{8}</think> no idea", None),
    ("42", None),
    ("", None),
    (r"\boxedness{3}", None),
]


@pytest.mark.parametrize(("text", "answer"), AUTO)
def test_the_marked_answer(text: str, answer: str | None) -> None:
    assert extract(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("42", "42"),
        ("Let me see.\n42.", "42"),
        ("The answer is 42.", "42"),
        ("Final answer: x = 3", "x = 3"),
        ("so\nthe result is 7\n\n", "7"),
        ("\n", None),
    ],
)
def test_plain_answers_stand_in_the_last_line(text: str, answer: str | None) -> None:
    assert extract(text, AnswerForm.PLAIN) == answer


def test_a_form_finds_no_other() -> None:
    assert extract("#### 3", AnswerForm.BOXED) is None
    assert extract(r"\boxed{3}", AnswerForm.HASHES) is None
    assert extract(r"\boxed{3}", AnswerForm.TAG) is None


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{" * 1_000_000,
        "<answer>" * 1_000_000,
        "####" * 1_000_000,
        "answer is " * 1_000_000,
        "{" * 4_000_000,
        "\\" * 4_000_000,
        "</think>" * 1_000_000,
    ],
)
def test_hostile_megabytes_cost_little(text: str) -> None:
    """Work that grows with the square of millions of characters would go on for hours."""
    for form in AnswerForm:
        extract(text, form)
