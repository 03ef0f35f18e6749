"""From the policy's words to an action, in each form that a config may choose."""

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren_env_worker.environments.text.forms import (
    MAX_READ_CHARS,
    Form,
    Pattern,
    Tag,
    action_in,
    where_in,
    written,
)

MOVE, GO = Tag("move"), Pattern(r"(?i)move: *(\w+)")
PARTS = ("<action>", "</action>", "<move>", "</move>", "\\boxed{", "}", "\n", "</think>", "a", " ")
WORDS = st.lists(st.sampled_from(PARTS), max_size=30).map("".join)
FORMS: tuple[Form, ...] = ("whole", "marked", "last_line", "boxed", MOVE, GO)


def read(words: str, form: Form) -> str | None:
    return asyncio.run(action_in(words, form))


@pytest.mark.parametrize(
    ("form", "words", "action"),
    [
        ("whole", " <think>up</think>\ndown ", " <think>up</think>\ndown "),
        ("marked", "<action>up</action> or\n<action> down </action>?", " down "),
        ("marked", "I go\n up \n", " up"),
        ("marked", "", ""),
        ("last_line", "I go\n\n up \n", "up"),
        ("last_line", "<think>up", None),
        ("boxed", "\\boxed{up}, no, \\boxed{do{w}n}", "do{w}n"),
        ("boxed", "up", None),
        (MOVE, "<move>up</move> <move>down</move> <move>left", "down"),
        (MOVE, "<move>up</move><think><move>down</move></think>", None),
        (MOVE, "<move> </move>", None),
        (MOVE, "<action>up</action>", None),
        (GO, "Move: up\nMOVE:down", "up"),
        (GO, "move:", None),
        (Pattern(r"(?s).*move: *(\w+)"), "move: up\nmove: down", "down"),
        (Pattern(r"(?:go|walk) (.+)|look"), "look", None),
        (Pattern(r"go (.+)"), "go \0u\0p", "up"),
    ],
)
def test_what_is_said_in_a_form(form: Form, words: str, action: str | None) -> None:
    assert read(words, form) == action


@given(WORDS)
def test_the_marked_action_is_the_last_of_all_pairs_and_else_the_last_line(words: str) -> None:
    pairs = re.findall("<action>(.*?)</action>", words, re.DOTALL)
    assert read(words, "marked") == (pairs or words.strip().splitlines() or [""])[-1]


@given(WORDS, st.sampled_from(FORMS))
def test_what_is_read_was_said(words: str, form: Form) -> None:
    found = read(words, form)
    assert found is None or found in words
    assert found or found is None or form in ("whole", "marked")


@given(st.text("abc1", min_size=1), st.sampled_from(FORMS[:5]))
def test_what_is_written_is_read(action: str, form: Form) -> None:
    words = written(action, form)
    assert words is not None
    before = "" if form == "whole" else "I see.\n"
    assert read(before + words, form) == action


def test_only_its_author_knows_how_to_write_what_a_pattern_reads() -> None:
    assert written("up", GO) is None


def test_a_pattern_that_could_be_matched_in_many_ways_ends_and_reads_the_end() -> None:
    assert read("a" * 10**6, Pattern("((?:a+)+)b")) is None
    assert read("x" * 10**6 + "go up", Pattern("go (.+)")) == "up"
    assert read("go up" + "x" * MAX_READ_CHARS, Pattern("go (.+)")) is None


def test_tags_that_never_end_are_read_in_proportion_to_their_number() -> None:
    assert read("<move>" * 200_000, MOVE) is None
    assert read("<move>" * 200_000 + "</move>" * 200_000, MOVE) == "<move>" * 199_999


def test_the_policy_is_told_how_to_say_it() -> None:
    assert [where_in(form, "NAME") for form in FORMS] == [
        ", and nothing else",
        ", as <action>NAME</action>",
        ", on the last line",
        ", as \\boxed{NAME}",
        ", as <move>NAME</move>",
        "",
    ]
