"""What a gateway says of a config that was not submitted."""

from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt


class RunEstimate(Frozen):
    """Upper bounds that follow from the config; what goes wrong and is done again comes on top."""

    training_episodes: NonNegativeInt
    """Episodes that are trained on. Those that fail, grow stale or can't be compared are not."""
    evaluation_episodes: NonNegativeInt
    demonstrations: NonNegativeInt
    """Of SFT; nothing is sampled for them."""
    sampled_tokens: NonNegativeInt
    """If every turn of every episode is as long as it may be."""
    kept_checkpoints: NonNegativeInt
    checkpoint_bytes: NonNegativeInt | None = None
    """Of one checkpoint, as the newest of yours of such a model was; null where there was none."""
    recording_bytes: NonNegativeInt
    """What the run's trajectories may take, as long as they are kept."""


class RunCheck(Frozen):
    mistakes: tuple[str, ...]
    """What would keep the run from going on, with its place in the config."""
    notes: tuple[str, ...]
    """What could not be checked."""
    estimate: RunEstimate
