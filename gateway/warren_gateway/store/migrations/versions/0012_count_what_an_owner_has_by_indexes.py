"""Count what an owner has by indexes"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_index("ix_run_owner_state", "run", ["owner", "state"], unique=False)
    has_policies = sa.text("policy_bytes > 0")
    op.create_index(
        "ix_model_with_policies",
        "model",
        ["run_id"],
        unique=False,
        sqlite_where=has_policies,
        postgresql_where=has_policies,
    )
