"""The registry of metrics: each tag has one line, and reward stands first."""

import re

import pytest

from warren_schemas.metrics.registry import SECTIONS, SFT, find, tensorboard_tag
from warren_schemas.tensorboard.about import folder_name
from warren_schemas.tensorboard.layout import LAYOUT, PINNED, pattern

LINES = [metric for section in SECTIONS for metric in section.metrics]


def test_every_line_says_all_and_stands_once() -> None:
    for metric in LINES:
        said = (metric.unit, metric.of, metric.meaning, metric.good, metric.bad)
        assert all(said), metric.tag
        assert not any("|" in words for words in said), f"{metric.tag}: it would break the table"
    tags = [metric.tag for metric in LINES]
    assert len(tags) == len(set(tags))


@pytest.mark.parametrize(
    ("tag", "line"),
    [
        ("reward/mean", "reward/mean"),
        ("reward/env/guess", "reward/env/{environment}"),
        ("env/exact", "env/{metric}"),
        ("env/guess/exact", "env/{metric}"),
        ("env_total/guess/turns", "env_total/{environment}/turns"),
        ("env_total/guess/exact", "env_total/{environment}/{metric}"),
        ("evaluation/env/guess/exact", "evaluation/env/{metric}"),
        ("queue/interact/guess", "queue/interact/{environment}"),
        ("sft/policy/loss", "policy/loss"),
    ],
)
def test_a_tag_has_its_line(tag: str, line: str) -> None:
    found = find(tag)
    assert found is not None
    assert found.tag == line


@pytest.mark.parametrize(
    "tag", ["reward", "rewards/mean", "reward/mean/x", "env/", "policy/nll", ""]
)
def test_other_tags_have_none(tag: str) -> None:
    assert find(tag) is None


def test_tensorboard_shows_the_reward_first_and_sft_last() -> None:
    tags = sorted(tensorboard_tag(metric.tag) for metric in LINES)
    assert tags[0].startswith("1_reward/")
    assert tensorboard_tag("sft/policy/loss") == "9_sft/policy/loss" > tags[-1]


def test_charts_show_what_there_is() -> None:
    charts = [tags for charts in LAYOUT.values() for tags in charts.values()]
    shown = [tag.removeprefix(SFT) for tags in charts for tag in tags]
    assert {*shown, *PINNED} <= {metric.tag for metric in LINES}
    assert re.fullmatch(pattern("env/{metric}"), "3_env/exact")
    assert not re.fullmatch(pattern("reward/mean"), "1_reward/means")


@pytest.mark.parametrize(
    ("name", "folder"),
    [("guess", "guess-89abcdef"), ("../a b", "a-b-89abcdef"), ("…", "run-89abcdef")],
)
def test_a_run_has_a_folder_that_people_know_again(name: str, folder: str) -> None:
    assert folder_name(name, "run_0123456789ab0123456789abcdef") == folder
