"""Reward functions for the tests, good and bad."""

from typing import Any

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
