"""Every metric that a run may report, in the order in which one looks at them.

Invariant: a run reports no tag without a line here; tests hold whatever reports metrics against `find`.
"""

from warren_schemas.metrics.metric import Metric
from warren_schemas.metrics.outcomes import ALARM, ENVIRONMENT, EPISODES, EVALUATION, REWARD
from warren_schemas.metrics.speed import QUEUES, TIME
from warren_schemas.metrics.updates import POLICY, STALENESS

SECTIONS = (REWARD, EVALUATION, ENVIRONMENT, EPISODES, POLICY, STALENESS, TIME, QUEUES, ALARM)
SFT = "sft/"
"""What SFT reports stands below it, under the same names."""
WARMUP_NUMBER = 9


def find(tag: str) -> Metric | None:
    """The line of a tag; None where it has none."""
    bare = tag.removeprefix(SFT)
    found = (m for section in SECTIONS for m in section.metrics if m.fits(bare))
    return next(found, None)


def tensorboard_tag(tag: str) -> str:
    """The tag with a number before it: TensorBoard sorts by name, and reward should come first."""
    if tag.startswith(SFT):
        return f"{WARMUP_NUMBER}_{tag}"
    first = tag.partition("/")[0]
    return f"{_NUMBERS[first]}_{tag}" if first in _NUMBERS else tag


_NUMBERS = {
    metric.tag.partition("/")[0]: section.number
    for section in SECTIONS
    for metric in section.metrics
}
