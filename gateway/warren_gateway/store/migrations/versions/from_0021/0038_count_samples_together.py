"""Keep with a sample what it took, until that is counted with others'"""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    op.add_column("tinker_sample", sa.Column("used", sa.LargeBinary(), nullable=True))
    is_uncounted = sa.text("used IS NOT NULL")
    op.create_index(
        "ix_tinker_sample_used",
        "tinker_sample",
        ["id"],
        sqlite_where=is_uncounted,
        postgresql_where=is_uncounted,
    )
