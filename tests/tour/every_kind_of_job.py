"""What a researcher with the SDK alone does in an evening: every kind of job, one leading to the next.

Runs where only the small install is, in a folder and with the key of a user of their own; `test_every_kind_of_job.py` reads
what it prints, one JSON object.
"""

import json
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import openai

import warren

SUMS = [
    *({"question": f"{n}+2=", "answer": str(n + 2), "category": "plus"} for n in range(10)),
    *({"question": f"{n}*2=", "answer": str(n * 2), "category": "times"} for n in range(10)),
]
BASE = "warren/tiny"
MODEL = {"base": BASE, "update": {"kind": "full"}}
SAMPLING = {"max_tokens": 4}
ENVIRONMENT = {
    "name": "math",
    "dataset": "sums",
    "evaluation_split": "train",
    "config": {"answer_form": "plain", "instruction": ""},
}
NAME = "calculator"
QUESTION = "7+2="


def main() -> None:
    with warren.sync.connect() as client:
        print(json.dumps(told_of_all(client)))


def told_of_all(client: warren.sync.Client) -> dict[str, object]:
    write("chats.jsonl", map(chat_of, SUMS))
    write("sums.jsonl", SUMS)
    chats = client.datasets.upload("chats.jsonl", "chats")
    client.datasets.upload("sums.jsonl", "sums")

    tuned = client.train(fine_tuning(chats.reference, epochs=40))
    tuned.result()
    base, better = evaluated(client), evaluated(client, f"{tuned.id}@last")
    compared = base.compare(better)

    trained = client.train(reinforcement(tuned))
    trained.result()
    best = client.datasets.collect(trained, "best", where={"min_reward": 1.0}, best_of=1)
    distilled = client.train(fine_tuning(best.reference, epochs=40))
    distilled.result()
    last = evaluated(client, f"{distilled.id}@last")

    scores = {
        name: each.result().scores.reward_mean
        for name, each in {"base": base, "tuned": better, "distilled": last}.items()
    }
    winner = max((tuned, distilled), key=lambda run: scores[name_of(run, tuned)] or 0.0)
    answers = asked_while_repointed(client, winner)
    winner.download("winner")
    return {
        "scores": scores,
        "categories": table(better.result()),
        "test": compared.test.model_dump(),
        "categories_tested": [each.category for each in compared.categories],
        "resumed_step": trained.view.step,
        "n_best": best.view.n_rows,
        "is_exact": learned_in(distilled) == sampled_in(best.rows(limit=100)),
        "winner": name_of(winner, tuned),
        "answers": answers,
        "served": [each.name for each in client.served()],
        "logged": sorted({entry.component for entry in trained.logs()}),
    }


def name_of(run: warren.sync.Run, tuned: warren.sync.Run) -> str:
    return "tuned" if run.id == tuned.id else "distilled"


def sampled_in(rows: Iterable[Mapping[str, object]]) -> set[tuple[int, ...]]:
    """The tokens of each row of what was collected."""
    return {tuple(cast("list[int]", row["ids_T"])) for row in rows}


def learned_in(run: warren.sync.Run) -> set[tuple[int, ...]]:
    """The tokens of each row of a fine-tuning."""
    tokens = (view.trajectory.transcript.tokens for view in run.trajectories())
    return {tuple(each.ids_T.tolist()) for each in tokens}


def write(name: str, rows: Iterable[Mapping[str, object]]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def chat_of(sum_: dict[str, str]) -> dict[str, object]:
    said = [("user", sum_["question"]), ("assistant", sum_["answer"])]
    return {"messages": [{"role": role, "content": content} for role, content in said]}


def fine_tuning(dataset: str, epochs: float) -> dict[str, object]:
    return {
        "model": MODEL,
        "sft": {
            "dataset": dataset,
            "epochs": epochs,
            "episodes_per_step": 10,
            "learning_rate": 5e-3,
        },
        "limits": {"steps": 0},
    }


def evaluated(client: warren.sync.Client, policy: str | None = None) -> warren.sync.Evaluation:
    config: dict[str, object] = {
        "model": MODEL,
        "environments": [ENVIRONMENT],
        "sampling": SAMPLING,
        "evaluation": {"episodes": len(SUMS)},
        "limits": {"steps": 0},
    }
    return client.evaluate(config, policy=policy)


def reinforcement(tuned: warren.sync.Run) -> dict[str, object]:
    checkpoint = tuned.checkpoints().checkpoints[-1].name
    return {
        "model": MODEL,
        "environments": [ENVIRONMENT],
        "sampling": SAMPLING,
        "algorithm": {"group_size": 4, "groups_per_step": 10},
        "optimizer": {"learning_rate": 1e-4},
        "resume_from": {"run": tuned.id, "checkpoint": checkpoint},
        "limits": {"steps": 4},
    }


def table(report: warren.EvaluationReport) -> dict[str, float | None]:
    return {str(row.category): row.scores.reward_mean for row in report.categories}


def asked_while_repointed(client: warren.sync.Client, winner: warren.sync.Run) -> list[str]:
    """What a name answers before it is pointed to the winner, meanwhile, and then; nothing fails."""
    asker = openai.OpenAI(
        base_url=f"{client.settings.url}/v1", api_key=client.settings.api_key, max_retries=0
    )
    client.serve(NAME, model=BASE)
    answers, answered, enough = [ask(asker)], threading.Event(), threading.Event()

    def go_on() -> None:
        try:
            while not enough.is_set():
                answers.append(ask(asker))
                answered.set()
        finally:
            answered.set()

    def until_there_are(n: int) -> None:
        while len(answers) < n and asking.running():
            answered.clear()
            answered.wait(1.0)

    with ThreadPoolExecutor() as threads:
        asking = threads.submit(go_on)
        until_there_are(2)
        client.serve(NAME, f"{winner.id}@last")
        until_there_are(len(answers) + 3)
        enough.set()
        asking.result()
    return answers


def ask(asker: openai.OpenAI) -> str:
    said = asker.chat.completions.create(
        model=NAME,
        messages=[{"role": "user", "content": QUESTION}],
        max_tokens=4,
        temperature=0,
    )
    return said.choices[0].message.content or ""


main()
