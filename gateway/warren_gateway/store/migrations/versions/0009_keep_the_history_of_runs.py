"""Keep the states that runs enter, and what their owners and clients want of them"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "run_history",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_run_history_run_id", "run_history", ["run_id"], unique=False)
    with op.batch_alter_table("run", schema=None) as batch_op:
        batch_op.add_column(sa.Column("wish", sa.String(), nullable=True))
        batch_op.add_column(sa.Column("submitted", sa.JSON(), nullable=True))
        batch_op.add_column(sa.Column("priority", sa.Integer(), nullable=False, server_default="0"))
        batch_op.add_column(sa.Column("retry_of", sa.String(), nullable=True))
        batch_op.add_column(
            sa.Column("on_disconnect", sa.String(), nullable=False, server_default="detach")
        )
        batch_op.add_column(sa.Column("client_lease_s", sa.Float(), nullable=True))
        batch_op.add_column(sa.Column("client_until_s", sa.Float(), nullable=True))
