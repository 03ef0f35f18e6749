"""A part of the reward in `shop.yaml`: whatever the answer, it should be a number."""


def is_number(response: str) -> float:
    """The share of digits in what was said."""
    return sum(char.isdigit() for char in response) / max(1, len(response))
