"""What an inference answered, and what is missing of it."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

from tests.support.factories import EXAMPLES

from warren.run_configs.answers import Expected, write_answers
from warren_schemas.episode import EpisodeEnded, TaskRow
from warren_schemas.http import TrajectoryView


async def recorded(*answers: tuple[int, int]) -> AsyncGenerator[TrajectoryView]:
    """Rows and samples."""
    example = EXAMPLES[EpisodeEnded][0]
    assert isinstance(example, EpisodeEnded)
    for number, (row, sample) in enumerate(answers):
        named = TaskRow(number=row, values={"prompt": f"{row}?"})
        task = example.spec.task.model_copy(update={"row": named})
        spec = example.spec.model_copy(update={"task": task, "member": sample})
        yield TrajectoryView(offset=number, trajectory=example.model_copy(update={"spec": spec}))


async def test_what_was_asked_and_has_no_answer_has_a_line_that_says_why(tmp_path: Path) -> None:
    file, asked = tmp_path / "answers.jsonl", Expected(3, 2, "the run is cancelled")
    written = await write_answers(recorded((2, 1), (0, 0), (1, 1)), file, asked)
    assert (written.n_lines, written.n_missing) == (6, 3)
    found = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["row"], line["sample"]) for line in found] == [
        (row, sample) for row in range(3) for sample in range(2)
    ]
    without = [(line["row"], line["sample"]) for line in found if line["error"] == asked.reason]
    assert without == [(0, 1), (1, 0), (2, 0)]


async def test_rows_that_were_asked_twice_are_not_missing(tmp_path: Path) -> None:
    file, asked = tmp_path / "answers.jsonl", Expected(3, 1, "none")
    written = await write_answers(recorded((0, 0), (1, 0), (0, 0)), file, asked)
    assert (written.n_lines, written.n_missing) == (3, 0)
