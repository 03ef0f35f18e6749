"""Let clients drive models"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.create_table(
        "model_request",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("model_id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=True),
        sa.Column("sequence", sa.BigInteger(), nullable=True),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("asked", sa.JSON(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("op", sa.Integer(), nullable=True),
        sa.Column("outcome", sa.LargeBinary(), nullable=True),
        sa.Column("arrived_s", sa.Float(), nullable=False),
        sa.Column("done_s", sa.Float(), nullable=True),
        sa.Column("delivered_s", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["model_id"], ["model.id"]),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
        sa.UniqueConstraint("model_id", "key"),
        sa.UniqueConstraint("model_id", "sequence"),
    )
    op.create_index(
        "ix_model_request_open",
        "model_request",
        ["model_id"],
        sqlite_where=sa.text("done_s IS NULL"),
        postgresql_where=sa.text("done_s IS NULL"),
    )
    for column in ("done_s", "delivered_s"):
        op.create_index(f"ix_model_request_{column}", "model_request", [column])
    op.create_table(
        "snapshot",
        sa.Column("model_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("expires_s", sa.Float(), nullable=True),
        sa.Column("metadata", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["model_id"], ["model.id"]),
        sa.PrimaryKeyConstraint("model_id", "name"),
    )
    op.create_index("ix_snapshot_expires_s", "snapshot", ["expires_s"])
    with op.batch_alter_table("checkpoint", schema=None) as batch_op:
        batch_op.add_column(sa.Column("expires_s", sa.Float(), nullable=True))
        batch_op.add_column(sa.Column("metadata", sa.JSON(), nullable=True))
        batch_op.add_column(
            sa.Column("is_automatic", sa.Boolean(), nullable=False, server_default=sa.false())
        )
        batch_op.create_index("ix_checkpoint_expires_s", ["expires_s"], unique=False)
    with op.batch_alter_table("model", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column("is_clients", sa.Boolean(), nullable=False, server_default=sa.false())
        )
        batch_op.add_column(sa.Column("metadata", sa.JSON(), nullable=True))
