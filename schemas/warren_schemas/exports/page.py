"""The page that explains every column of an export, written from the columns themselves.

`python -m warren_schemas.exports.page > docs/exports.md` brings it up to date; a test compares the two.
"""

from warren_schemas.exports.columns import COLUMNS, Kind

HEAD = """# Exports

```
warren trajectories last --to trajectories.parquet            # or .jsonl
warren trajectories last --to today.parquet --from 12h
warren trajectories last --to trajectories.traces.jsonl       # OpenEnv's TrainingTraces
```

One row for each episode, with the same columns in both forms (traces [have another](environments-openenv.md#trainingtraces)), which archives (`retention.archive`) have as well. JSON
lines need nothing beyond the SDK; parquet needs `pyarrow` (`pip install '.[parquet]'` in your clone of Warren). This page is written
from the columns (`python -m warren_schemas.exports.page`). What is written can be [replayed](replay.md#from-archives-and-exported-files).

```python
import pandas as pd

episodes = pd.read_parquet("trajectories.parquet")        # or pd.read_json("trajectories.jsonl", lines=True)
trained = episodes[episodes.fate == "trained"]
print(trained.groupby("step").reward.mean())
exact = trained.metrics.map(dict).str["exact"]            # from JSON lines: trained.metrics.str["exact"]
```

```python
import pyarrow.parquet as pq

print(pq.read_table("trajectories.parquet", columns=["step", "reward", "prompt", "response"]))
```

| column | in parquet | in JSON lines | meaning |
|---|---|---|---|
"""

FORMS: dict[Kind, tuple[str, str]] = {
    "text": ("string", "string"),
    "integer": ("int64", "number"),
    "number": ("double", "number"),
    "boolean": ("bool", "true or false"),
    "time": ("timestamp, UTC", "ISO 8601, UTC"),
    "turns": ("list of struct", "array of objects"),
    "numbers by name": ("map of string to double", "object"),
    "messages": ("list of struct", "array of objects"),
    "token ids": ("list of int32", "array"),
    "mask": ("list of uint8", "array"),
    "logprobs": ("list of float", "array"),
    "versions": ("list of int32", "array"),
}


def exports_page() -> str:
    """The page, as Markdown."""
    lines = (
        f"| `{column.name}` | {' | '.join(FORMS[column.kind])} | {column.meaning} |\n"
        for column in COLUMNS
    )
    return HEAD + "".join(lines)


if __name__ == "__main__":
    print(exports_page(), end="")
