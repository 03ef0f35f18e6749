"""What a gateway says of a config that was not submitted."""

from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeFloat, NonNegativeInt
from warren_schemas.ids import RunId


class RunEstimate(Frozen):
    """Upper bounds that follow from the config; what goes wrong and is done again comes on top."""

    training_episodes: NonNegativeInt
    """Episodes that are trained on. Those that fail, grow stale or can't be compared are not."""
    evaluation_episodes: NonNegativeInt
    demonstrations: NonNegativeInt
    """Of SFT, with rows that it holds out; nothing is sampled for them."""
    sampled_tokens: NonNegativeInt
    """If every turn of every episode is as long as it may be."""
    kept_checkpoints: NonNegativeInt
    checkpoint_bytes: NonNegativeInt | None = None
    """Of one checkpoint, as the newest of yours of such a model was; null where there was none."""
    recording_bytes: NonNegativeInt
    """What the run's trajectories may take, as long as they are kept."""


class RunExpectation(Frozen):
    """What the run will probably take, by your last similar ones: of the same base model, trained in the same way on the same
    environments."""

    runs: tuple[RunId, ...]
    """Those, newest first."""
    episodes: NonNegativeInt
    """All that complete, also those that are not trained on. Attempts that fail have a part in the time alone."""
    sampled_tokens: NonNegativeInt
    """Of these episodes; of a replay with evaluations, the recorded tokens that it trains on are among them."""
    wall_s: NonNegativeFloat
    """From its start to its end, without the time in the queue."""
    least_wall_s: NonNegativeFloat
    """As the quickest of those would be."""
    most_wall_s: NonNegativeFloat


class RunCheck(Frozen):
    mistakes: tuple[str, ...]
    """What would keep the run from going on, with its place in the config."""
    notes: tuple[str, ...]
    """What could not be checked."""
    estimate: RunEstimate
    expected: RunExpectation | None = None
    """None where there is no similar run to go by."""
