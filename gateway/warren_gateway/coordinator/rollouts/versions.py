"""How far from the policy under training the groups of a batch were sampled, as metrics."""

from collections.abc import Sequence

import numpy as np

from warren_gateway.coordinator.state.groups import Group


def staleness(groups: Sequence[Group], version: int) -> dict[str, float]:
    """Optimizer steps between sampling the groups and training on them at `version`."""
    lags = [version - group.oldest_version for group in groups]
    return {"stale/lag_mean": float(np.mean(lags)), "stale/lag_max": float(max(lags))}


def recorded_versions(groups: Sequence[Group]) -> dict[str, float]:
    """Versions of the recording policy that sampled the groups; of each group its oldest token's."""
    versions = [group.oldest_version for group in groups]
    return {
        "replay/version_mean": float(np.mean(versions)),
        "replay/version_min": float(min(versions)),
    }
