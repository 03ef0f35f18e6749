"""What is decided without algebra, and what is left to it."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren_env_worker.verifier.exact import number, same
from warren_env_worker.verifier.too_expensive import is_hazardous, is_too_long

SAME = [
    ("42", "42.0"),
    ("1,000", "1000"),
    ("1{,}000", "1000"),
    ("0.5", r"\frac{1}{2}"),
    (r"\frac12", "1/2"),
    (r"-\dfrac{3}{4}", r"\tfrac{-3}{4}"),
    (r"\left( 1, 2 \right)", "(1,2)"),
    (r"50\%", "50"),
    (r"90^\circ", "90"),
    (r"5\text{ cm}", "5"),
    (r"\text{(A)}", "A"),
    (r"\text{Monday}", "monday"),
    (r"\$5.50", "5.5"),
    ("0.333333333", r"\frac{1}{3}"),
    ("+3", "3"),
]
OTHER = [("42", "43"), ("3.14", "3.1416"), (r"\frac{1}{2}", "2"), ("0.33", r"\frac{1}{3}")]
OPEN = [("42", "x"), ("x+1", "1+x"), (r"\frac{1}{0}", "1"), ("A", "a"), ("1,2", "2,1")]


@pytest.mark.parametrize(("gold", "answer"), SAME)
def test_the_same_in_other_notation(gold: str, answer: str) -> None:
    assert same(gold, answer) is True
    assert same(answer, gold) is True


@pytest.mark.parametrize(("gold", "answer"), OTHER)
def test_other_numbers(gold: str, answer: str) -> None:
    assert same(gold, answer) is False


@pytest.mark.parametrize(("gold", "answer"), OPEN)
def test_what_is_no_number_is_left_to_algebra(gold: str, answer: str) -> None:
    assert same(gold, answer) is None


@given(st.fractions(max_denominator=10**6))
def test_fractions_are_read_as_they_are_written(value: Fraction) -> None:
    over, under = value.numerator, value.denominator
    assert number(f"{over}/{under}") == number(rf"\frac{{{over}}}{{{under}}}") == value


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_text_raises(gold: str, answer: str) -> None:
    same(gold, answer)
    is_hazardous(gold, answer)


@pytest.mark.parametrize(
    "answer",
    [
        "9^{9^{9^9}}",
        "9**9**9",
        "10^{10000}",
        "10^{1,000,000}",
        "99999!",
        "((10!)!)!",
        r"\sum_{i=1}^{9} i",
        r"(x+y+z)^{40}",
        r"\frac{1}{" * 30 + "1" + "}" * 30,
        "1+" * 40 + "1",
        "7" * 300,
        "a\x00b",
    ],
)
def test_hazards_are_refused_unless_the_right_answer_has_them(answer: str) -> None:
    assert is_hazardous("42", answer)
    assert not is_hazardous(answer, answer)


@pytest.mark.parametrize(
    "answer",
    [
        "x^2 + y^2",
        "x^2, 3, 4",
        "e^{-x^2}",
        r"\frac{-1 \pm \sqrt{5}}{2}",
        "10!",
        r"\binom{10}{3}",
        "x^2    + 3",
        "((x^2)+1)^3",
        "2^{100}",
    ],
)
def test_ordinary_answers_are_no_hazards(answer: str) -> None:
    assert not is_hazardous("42", answer)


def test_long_answers_are_refused_unless_the_right_one_is_long() -> None:
    assert is_too_long("42", "1" * 1000)
    assert not is_too_long("1" * 500, "1" * 1000)
