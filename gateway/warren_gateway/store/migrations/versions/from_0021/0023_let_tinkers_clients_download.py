"""Let Tinker's clients download without a key, and keep why a session ended"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.create_table(
        "tinker_download",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("folder", sa.String(), nullable=True),
        sa.Column("session_id", sa.String(), nullable=True),
        sa.Column("expires_s", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["owner"], ["account.name"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_tinker_download_expires_s", "tinker_download", ["expires_s"])
    with op.batch_alter_table("tinker_session", schema=None) as batch_op:
        batch_op.add_column(sa.Column("finish_reason", sa.String(), nullable=True))
