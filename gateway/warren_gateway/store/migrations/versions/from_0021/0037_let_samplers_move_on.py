"""Let samplers move on"""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"

_SAMPLER = sa.table(
    "tinker_sampler",
    sa.column("id", sa.String()),
    sa.column("policy", sa.JSON()),
    sa.column("model_id", sa.String()),
    sa.column("version", sa.Integer()),
    sa.column("created_s", sa.Float()),
    sa.column("used_s", sa.Float()),
)


def upgrade() -> None:
    op.add_column("model", sa.Column("live_version", sa.Integer(), nullable=True))
    op.add_column("model", sa.Column("live_url", sa.String(), nullable=True))
    for column in (
        sa.Column("model_id", sa.String(), nullable=False, server_default=""),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.Column("used_s", sa.Float(), nullable=False, server_default="0"),
    ):
        op.add_column("tinker_sampler", column)
    connection = op.get_bind()
    for sampler, policy in connection.execute(sa.select(_SAMPLER.c.id, _SAMPLER.c.policy)).all():
        version = policy["min_version"] if policy["pinned"] else None
        values = {"model_id": policy["model"], "version": version, "used_s": _SAMPLER.c.created_s}
        connection.execute(_SAMPLER.update().where(_SAMPLER.c.id == sampler).values(values))
    op.create_index("ix_tinker_sampler_model_id", "tinker_sampler", ["model_id"])
