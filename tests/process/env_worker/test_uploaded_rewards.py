"""Rewards by Python that stands in the config: what it takes and gives, in a real sandbox, and what will not do."""

import pytest

from warren.environment import ChatMessage, ConfigError
from warren_env_worker.permissions.permissions import TRUSTED, Permissions
from warren_env_worker.rewards.code import RewardCode
from warren_env_worker.rewards.scored import RewardFailed, Scored
from warren_schemas.config import CodeReward

ASKED = (ChatMessage(role="user", content="6*7 = '?'"),)
SCORED = Scored(ASKED, 'forty-two "42"\n', "42", 1.0, "gsm8k", {"exact": 1.0})


def reward(
    code: str, limit_s: float | None = None, permissions: Permissions = TRUSTED
) -> RewardCode:
    return RewardCode(CodeReward(code=code, limit_s=limit_s), permissions)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def reward(response): return len(response)", 15.0),
        ("def reward(solution_str, ground_truth): return ground_truth in solution_str", 1.0),
        ("def reward(*, metrics, own_reward, unknown=2): return metrics['exact'] - own_reward - unknown", -2.0),
        ("def reward(**given): return len(given['messages'][0]['content']) + (given['gold'] == '42')", 10.0),
        ("import re\nprint('loud')\ndef reward(messages):\n    print('0.5')\n    return len(re.findall('[0-9]', str(messages)))", 2.0),
    ],
)  # fmt: skip
async def test_it_takes_what_it_names(code: str, expected: float) -> None:
    assert await reward(code)(SCORED) == expected


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def reward(): return 1 / 0", r"failed \(error\): ZeroDivisionError"),
        ("def reward(): return None", r"failed \(error\): TypeError"),
        ("def reward(): return float('nan')", "is no finite number"),
        ("def reward():\n    while True: pass", r"failed \(timeout\)"),
        ("import os\ndef reward(): os._exit(0)", r"failed \(died\)"),
        ("def reward(): return 1.0\nraise SystemExit", r"failed \("),
    ],
)
async def test_one_that_fails_gives_no_reward(code: str, reason: str) -> None:
    with pytest.raises(RewardFailed, match=reason):
        await reward(code, limit_s=1.0)(SCORED)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def reward(:", "is no Python"),
        ("def rewards(response): return 1.0", "has no function reward"),
        ("async def reward(response): return 1.0", "has no function reward"),
        ("def reward(response, temperature): return 1.0", "asks for temperature; it may take response, "),
        ("def reward(response, /): return 1.0", "asks for arguments without names"),
    ],
)  # fmt: skip
def test_code_that_will_not_do(code: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        reward(code)


def test_no_more_time_is_taken_than_the_operator_allows() -> None:
    with pytest.raises(ConfigError, match="cell_s"):
        reward("def reward(): return 1.0", limit_s=60.0, permissions=Permissions())
