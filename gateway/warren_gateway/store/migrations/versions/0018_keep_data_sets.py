"""Keep data sets"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.create_table(
        "dataset",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("splits", sa.JSON(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("is_complete", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_dataset_owner_name", "dataset", ["owner", "name"])
    op.create_index("ix_dataset_digest", "dataset", ["digest"])
    op.create_table(
        "dataset_share",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "name", "user"),
    )
    op.create_index("ix_dataset_share_user", "dataset_share", ["user"])
    op.create_table(
        "dataset_upload",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("received_bytes", sa.BigInteger(), nullable=False),
        sa.Column("touched_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "sha256"),
    )
    op.create_table(
        "run_dataset",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("dataset_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"]),
        sa.PrimaryKeyConstraint("run_id", "dataset_id"),
    )
    op.create_index("ix_run_dataset_dataset_id", "run_dataset", ["dataset_id"])
