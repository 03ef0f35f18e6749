"""What becomes of a group some of whose episodes fail (`algorithm.groups`).

A failed episode is tried again, left out, or takes its group with it. It is never a reward of 0.
Episodes of evaluations and demonstrations are compared with none: they are always tried again. An environment's own
`max_failed_members` and `episode_attempts` go before what the run says.
"""

from warren_gateway.coordinator.state.groups import Group
from warren_schemas.config import AllMembers, Quorum, Retry, TrainConfig
from warren_schemas.episode import EpisodePurpose

LEAST_MEMBERS = 2
"""An episode can only be compared with another one."""


def group_size(config: TrainConfig, environment: int) -> int:
    """Episodes of one task that are compared with each other."""
    return config.environment_of(environment).group_size or config.algorithm.group_size


def max_attempts(config: TrainConfig, group: Group) -> int:
    """How often a member of this group is tried."""
    own = config.environment_of(group.environment).episode_attempts
    if own is not None:
        return own
    is_quorum = isinstance(config.algorithm.groups, Quorum)
    if is_quorum and group.purpose is EpisodePurpose.TRAIN:
        return 1
    return config.limits.episode_attempts


def is_decided(config: TrainConfig, group: Group) -> bool:
    """Whether nothing that may still come changes what becomes of the group."""
    return group.is_complete or _has_failed(config, group)


def is_usable(config: TrainConfig, group: Group) -> bool:
    """Whether a group that is decided can be trained on."""
    least = LEAST_MEMBERS if group.purpose is EpisodePurpose.TRAIN else 1
    return len(group.completed) >= least and not _has_failed(config, group)


def _has_failed(config: TrainConfig, group: Group) -> bool:
    is_training = group.purpose is EpisodePurpose.TRAIN
    return is_training and len(group.failures) > _most_failures(config, group)


def _most_failures(config: TrainConfig, group: Group) -> int:
    own = config.environment_of(group.environment).max_failed_members
    if own is not None:
        return own
    match config.algorithm.groups:
        case AllMembers():
            return 0
        case Quorum(max_failed_members=n_allowed):
            return n_allowed
        case Retry():
            return group.n_members
