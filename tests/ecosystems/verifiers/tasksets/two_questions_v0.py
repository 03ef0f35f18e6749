"""Environments of verifiers' v0 API, as its users write them: two questions, or a tool; `kaput` says what goes wrong.

Told a folder one waits there to be killed, once the policy has spoken: see `once_one_waits` in tests/ecosystems/whole_run.py.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (the package lies in an environment of its own)

import asyncio
import os
import signal
from pathlib import Path

import verifiers as vf
from datasets import Dataset


def load_environment(
    n: int = 3, kaput: str = "", shop: bool = False, named: str = "", waits_in: str = ""
):
    if kaput == "counting":
        os.kill(os.getpid(), signal.SIGKILL)
    rubric = vf.Rubric(funcs=[turns_of(kaput)], weights=[2.0])
    rows = [
        {"question": f"{number}?", "answer": f"and {number}?", **ids_of(named, number)}
        for number in range(n)
    ]
    train, test = Dataset.from_list(rows), Dataset.from_list(rows[:1])
    made = {"dataset": train, "eval_dataset": test, "system_prompt": "guess:", "rubric": rubric}
    if shop:
        return vf.ToolEnv(tools=[price], **made)
    return TwoQuestions(kaput, waits_in, **made)


def ids_of(named: str, number: int):
    """As data sets have them: in `info`, as an `example_id` of theirs, or nowhere."""
    if named == "info":
        return {"info": {"id": f"question-{number}"}}
    if named == "text":
        return {"example_id": f"question-{number}"}
    return {"example_id": 100 + number} if named == "number" else {}


def price(article: str) -> str:
    """The price of an article."""
    return str(len(article))


def turns_of(kaput):
    def turns(completion, **_):
        if kaput == "reward":
            raise RuntimeError("the reward is kaput")
        return float(sum(message["role"] == "assistant" for message in completion))

    return turns


class TwoQuestions(vf.MultiTurnEnv):
    def __init__(self, kaput, waits_in, **made):
        super().__init__(max_turns=2, **made)
        self.kaput = kaput
        self.waits_in = waits_in

    async def env_response(self, messages, state, **_):
        if self.kaput == "process":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.waits_in and is_to_be_killed(self.waits_in):
            await asyncio.Event().wait()
        return [{"role": "user", "content": state["answer"]}]


def is_to_be_killed(folder: str) -> bool:
    if Path(folder, "go-on").exists():
        return False
    Path(folder, str(os.getpid())).touch()
    return True
