"""Numbers and times as people read them."""

import pytest

from warren.display.words import ago, counted, duration, sparkline


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.0 s"), (4.21, "4.2 s"), (59.4, "0:59"), (187, "3:07"), (3753, "1:02:33"),
        (2 * 86400 + 3 * 3600, "2 d 03 h"),
    ],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("past_s", "text"),
    [(1, "just now"), (42, "42 s ago"), (180, "3 min ago"), (7200, "2 h ago"), (2e5, "2 d ago")],
)
def test_ago(past_s: float, text: str) -> None:
    assert ago(1000.0, now_s=1000.0 + past_s) == text


def test_sparklines_show_the_whole_curve() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([0, 0, 1, 1], 2) == "▁█"
    assert sparkline([3.0, 3.0], 8) == "▁▁"
    assert sparkline([], 8) == ""
    assert len(sparkline(list(range(1000)), 40)) == 40


@pytest.mark.parametrize(("number", "text"), [(0, "0 rows"), (1, "1 row"), (12345, "12,345 rows")])
def test_one_is_told_in_the_singular(number: int, text: str) -> None:
    assert counted(number, "row") == text
