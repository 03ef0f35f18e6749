"""Lease runs to gateways"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("run", schema=None) as batch_op:
        batch_op.add_column(sa.Column("coordinator", sa.String(), nullable=True))
        batch_op.add_column(_number("epoch", sa.Integer()))
        batch_op.add_column(_number("leased_until_s", sa.Float()))
        batch_op.add_column(_number("revision", sa.Integer()))


def _number(name: str, kind: "sa.Integer | sa.Float[float]") -> "sa.Column[float]":
    return sa.Column(name, kind, nullable=False, server_default="0")
