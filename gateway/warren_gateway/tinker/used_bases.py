"""Base models that were used here before: their workers may come back, though none is heard of now."""

from sqlmodel import Session, col, select

from warren_gateway.store.tables import Model, TinkerSampler


def was_used(base_model: str, session: Session) -> bool:
    """Whether a model of it was trained, or a sampler of it opened."""
    trained = select(Model.id).where(
        col(Model.base_model) == base_model, col(Model.policy_version) > 0
    )
    sampled = select(TinkerSampler.id).where(col(TinkerSampler.base_model) == base_model)
    return any(session.exec(query.limit(1)).first() is not None for query in (trained, sampled))
