"""Reward functions for the tests, good and bad."""

import os
from typing import Any

from warren.environment import EpisodeTranscript

NUMBER = 1


def brevity(response: str) -> float:
    return -float(len(response.split()))


async def patient(own_reward: float, weight: float = 1.0) -> float:
    return own_reward * weight


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, object] | None = None,
) -> float:
    assert (data_source, solution_str, ground_truth) == ("gsm8k", "four words of mine", "42")
    return 2.0


def greedy(**everything: Any) -> float:
    return 2.0 + (everything["data_source"] == "gsm8k")


class Judge:
    @staticmethod
    def whole(messages: object, gold: str, metrics: object) -> int:
        return 7


def raises(response: str) -> float:
    return 1 / 0


def gives_nan() -> float:
    return float("nan")


def gives_text() -> str:
    return "1"


def gives_none() -> None: ...


def asks_for_more(response: str, temperature: float) -> float:
    return temperature


def checksum(response: str) -> float:
    """Other answers are rewarded otherwise."""
    return float(sum(map(ord, response)) % 7)


def rewards_so_far(rewards: list[float]) -> list[float]:
    return rewards


def rank(rewards: list[float]) -> list[float]:
    """The share of the others that did no better."""
    return [sum(other <= own for other in rewards) / len(rewards) for own in rewards]


async def shortest(transcripts: list[EpisodeTranscript], responses: list[str]) -> list[bool]:
    assert [each.response for each in transcripts] == responses
    least = min(len(words) for words in responses)
    return [len(words) == least for words in responses]


def too_few(responses: list[str]) -> list[float]:
    return [1.0]


def no_group(rewards: list[float]) -> float:
    return 1.0


def dies_with_group(rewards: list[float]) -> list[float]:
    os._exit(7)


def dies() -> float:
    os._exit(7)


def gold_is_known(gold: str | None, own_reward: float | None) -> float:
    return float(gold == "42") + 10.0 * (own_reward is None)
