"""Folders of tasks, as Harbor reads them."""

from pathlib import Path

from tests.support.patience import PATIENCE_S

TOML = """\
schema_version = "1.4"
[metadata]
category = "{category}"
[agent]
timeout_sec = {agent_s}
[verifier]
timeout_sec = {verifier_s}
[environment]
build_timeout_sec = {patience_s}
{more}
"""
DOCKERFILE = "FROM debian:12\nWORKDIR /app\nCOPY numbers.txt ./\nENV UNIT=apples\n"
SUM_IS_WRITTEN = """\
#!/bin/bash
if [ "$(cat /app/answer.txt)" = 7 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
"""


def write_task(
    folder: Path,
    name: str = "sum",
    instruction: str = "Write the sum of numbers.txt into answer.txt.",
    tests: str = SUM_IS_WRITTEN,
    dockerfile: str = DOCKERFILE,
    category: str = "sums",
    agent_s: float = PATIENCE_S,
    verifier_s: float = PATIENCE_S,
    more: str = "",
) -> Path:
    """The folder of all of them."""
    task = folder / name
    files = {
        "task.toml": TOML.format(
            category=category,
            agent_s=agent_s,
            verifier_s=verifier_s,
            patience_s=PATIENCE_S,
            more=more,
        ),
        "instruction.md": instruction,
        "environment/Dockerfile": dockerfile,
        "environment/numbers.txt": "3\n4\n",
        "tests/test.sh": tests,
    }
    for path, text in files.items():
        (task / path).parent.mkdir(parents=True, exist_ok=True)
        (task / path).write_text(text)
    return folder
