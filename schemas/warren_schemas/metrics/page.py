"""The page that explains every metric, written from the registry.

`python -m warren_schemas.metrics.page > docs/metrics.md` brings it up to date; a test compares the two.
"""

from collections.abc import Iterator

from warren_schemas.metrics.metric import Metric, Section
from warren_schemas.metrics.registry import SECTIONS

HEAD = """# Metrics

Every figure that a run reports, after each step and each evaluation: its unit, what it is a mean of, and what good and
bad look like. A word in braces stands for a name. This page is written from the registry
(`python -m warren_schemas.metrics.page`).

```
warren metrics last                              # a table of the newest figures
warren metrics last --tag 'reward/*' --follow    # one line for each step, as they come
warren metrics last --csv > metrics.csv          # or --json: one object in each line
warren tensorboard last other-run                # fetch the curves, and look at them in TensorBoard
```

None of these needs the gateway's disk. In Python: `async for row in run.metrics(["reward/*"])`; over HTTP:
`GET /v1/runs/{run}/metrics?after=…&follow=…` answers JSON lines, and `number` of the last one goes on behind it.

The x axis is the step: one batch of reinforcement learning. SFT counts its own steps, and what it reports stands
below `sft/`: `sft/policy/loss`. A figure that does not apply to a run is not reported.

**TensorBoard** sorts by name, so there each tag has a number before it: `reward/mean` is `1_reward/mean`. The gateway
writes the files of every run to `NAME-ID` (the name of the run and the last 8 digits of its id) in its `--runs-dir`, with
`metrics.jsonl` beside them, the config as text, and the hyperparameters for the HParams tab. The tab *Custom Scalars*
begins with the reward.
"""


def metrics_page() -> str:
    """The page, as Markdown."""
    return "\n".join([HEAD, *(line for section in SECTIONS for line in _section(section))])


def _section(section: Section) -> Iterator[str]:
    yield f"## {section.title}"
    yield ""
    yield f"{section.about} In TensorBoard: `{section.number}_…`."
    yield ""
    yield "| tag | unit | of | meaning | good | bad |"
    yield "|---|---|---|---|---|---|"
    yield from (_line(metric) for metric in section.metrics)
    yield ""


def _line(metric: Metric) -> str:
    cells = (f"`{metric.tag}`", metric.unit, metric.of, metric.meaning, metric.good, metric.bad)
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(metrics_page(), end="")
