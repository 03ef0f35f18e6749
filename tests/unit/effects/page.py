"""`docs/settings-effects.md`, from the table: `python -m tests.unit.effects.page > docs/settings-effects.md`."""

import yaml
from tests.unit.effects.keys import all_keys
from tests.unit.effects.table import ACTED_ON, EXCEPTIONS, ROWS, WHERE

HEAD = """# What each setting changes

Every key of a run's config changes what is sampled, trained, stored or reported. A test turns each of them, one at a time,
and compares what comes out: of the coordinator's decisions, of a tiny model in the trainer and in the sampler, of an
environment's start, of the store. This page is written from that test's table (`python -m tests.unit.effects.page`), and
a new key without a line fails it. [Configuration](configuration.md) says what the keys mean; keys that have no effect beside
others are refused as the config is read, with the reason.

`environments.KEY` is a key of one environment in the list, `KEY (KIND)` one of the settings of that kind.

| key | turned to | what that changes, and where it is seen |
|---|---|---|
"""

ORDERS = """Some of these are orders to workers that stand in an episode's start. A test shows a worker obey each:"""


def page() -> str:
    """As Markdown."""
    rows = {
        row.key: f"| `{row.key}` | `{_shown(row.value)}` | {WHERE[row.where]} |" for row in ROWS
    }
    lines = [rows[key] for key in all_keys() if key in rows]
    left_out = [f"- `{key}`: {reason}." for key, reason in EXCEPTIONS.items()]
    obeyed = [f"- `{key}`: `{test}`" for key, test in ACTED_ON.items()]
    rest = (
        ["Not in the table:", "", *left_out] if left_out else ["No key is missing from the table."]
    )
    parts = [*lines, "", *rest, "", ORDERS, "", *obeyed]
    return HEAD + "\n".join([*parts, ""])


def _shown(value: object) -> str:
    """As in YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=1000)
    return text.removesuffix("\n").removesuffix("\n...")


if __name__ == "__main__":
    print(page(), end="")
