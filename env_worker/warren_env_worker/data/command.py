"""Convert data to the layout that environments read.

For example:
    warren data prepare gsm8k-train.parquet --out data/gsm8k --holdout 0.05
"""
# `warren data --help` prints this docstring. Importing this module loads nothing heavy.

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def prepare(
    source: Path,
    /,
    *more: Path,
    out: Path,
    holdout: Annotated[float, Parameter()] = 0.0,
) -> int:
    """Convert files of questions to the layout that the environment `math` reads.

    Reads parquet and JSON lines in the layouts of GSM8K, MATH, DAPO-Math, DeepScaleR, verl and
    OpenTinker. Duplicate questions are removed.

    For example:
        warren data prepare gsm8k-train.parquet --out data/gsm8k --holdout 0.05
        warren data prepare math.jsonl dapo.parquet --out data/mixed

    Parameters
    ----------
    source
        A file that ends in .parquet, .jsonl or .json.
    more
        More files.
    out
        Folder for `train.jsonl` and `test.jsonl`.
    holdout
        Share of the questions for the test split.
    """
    from warren.environment import ConfigError
    from warren.errors import ConfigurationError
    from warren_env_worker.data import preparing

    if not 0 <= holdout < 1:
        raise ConfigurationError(f"--holdout must be from 0 to below 1, not {holdout:g}")
    try:
        counts = preparing.prepare((source, *more), out, holdout=holdout)
    except ConfigError as error:
        raise ConfigurationError(str(error)) from error
    for split, n_questions in counts.items():
        print(f"{out / split}.jsonl: {n_questions} questions")
    return 0
