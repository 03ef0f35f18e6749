"""Tasks of Inspect that are small, and some that fail."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (the package lies in an environment of its own)

import asyncio
import os
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser
from inspect_ai.scorer import Score, accuracy, includes, mean, model_graded_qa, scorer
from inspect_ai.solver import generate, solver, use_tools
from inspect_ai.tool import bash, tool

SUMS = [
    Sample("3 + 4?", target="7", id="seven", metadata={"category": "sums"}),
    Sample("2 + 3?", target="5"),
]


@solver
def asks_again():
    async def solve(state, generate):
        state = await generate(state)
        state.messages.append(ChatMessageUser(content="and 0?"))
        return await generate(state)

    return solve


@task
def sums(n: int = 2):
    return Task(dataset=SUMS[:n], solver=generate(), scorer=includes())


@task
def keyed():
    """Shows and prints the key that it finds in a variable."""
    key = os.environ.get("JUDGE_KEY", "nothing")
    print("the key is", key, flush=True)
    return Task(dataset=[Sample(key, target="7")], solver=generate(), scorer=includes())


@task
def two_questions():
    samples = [Sample("0?", target="e")]
    return Task(dataset=samples, solver=asks_again(), scorer=always_four())


@scorer(metrics=[mean()])
def always_four():
    async def score(state, target):
        return Score(value=4)

    return score


@tool
def price():
    async def execute(article: str) -> str:
        """The price of an article.

        Args:
            article: What it is called.
        """
        return {"tea": "3"}[article]

    return execute


@task
def shopping():
    samples = [Sample("What does tea cost?", target="3")]
    return Task(dataset=samples, solver=[use_tools(price()), generate()], scorer=includes())


@task
def in_a_sandbox():
    samples = [Sample("What is in a.txt?", target="7", files={"a.txt": "7"})]
    return Task(
        dataset=samples, solver=[use_tools(bash()), generate()], scorer=includes(), sandbox="docker"
    )


@task
def beside_the_process(of_each_sample: bool = False):
    its_own, all_samples = ("local", None) if of_each_sample else (None, "local")
    samples = [Sample("Who are you?", target="7", sandbox=its_own)]
    solvers = [use_tools(bash()), generate()]
    return Task(dataset=samples, solver=solvers, scorer=includes(), sandbox=all_samples)


@scorer(metrics={"right": [mean()], "short": [mean()]})
def both():
    async def score(state, target):
        said = state.output.completion
        return Score(value={"right": float(target.text in said), "short": float(len(said) < 3)})

    return score


@task
def several_scores():
    return Task(dataset=SUMS[:1], solver=generate(), scorer=[both(), includes()])


@task
def graded():
    return Task(dataset=SUMS[:1], solver=generate(), scorer=model_graded_qa())


@scorer(metrics=[accuracy()])
def kaput_scorer(how: str):
    async def score(state, target):
        if how == "raises":
            raise ValueError("the scorer is kaput")
        if how == "dies":
            os._exit(1)
        if how == "tells":
            return Score.unscored(explanation="x" * 195 + os.environ["JUDGE_KEY"])
        return Score(value="perhaps") if how == "words" else Score.unscored(explanation="no idea")

    return score


@task
def kaput(how: str):
    return Task(dataset=SUMS[:1], solver=generate(), scorer=kaput_scorer(how))


@task
def limited():
    return Task(dataset=SUMS[:1], solver=asks_again(), scorer=includes(), message_limit=2)


@scorer(metrics=[mean()])
def even():
    async def score(state, target):
        return Score(value=float(state.output.completion.startswith("e")))

    return score


@solver
def waits_to_be_killed(folder: str | None):
    """Once the policy has spoken: see `once_one_waits` in tests/ecosystems/whole_run.py."""

    async def solve(state, generate):
        if is_to_be_killed(folder):
            await asyncio.Event().wait()
        return state

    return solve


def is_to_be_killed(folder: str | None) -> bool:
    if folder is None or Path(folder, "go-on").exists():
        return False
    Path(folder, str(os.getpid())).touch()
    return True


@task
def even_or_odd(waits_in: str | None = None):
    samples = [Sample(f"even or odd: {n}", id=str(n)) for n in range(0, 8, 2)]
    solvers = [generate(), waits_to_be_killed(waits_in)]
    return Task(dataset=samples, solver=solvers, scorer=even())
