"""Count steps and updates apart: which step made which policy, and steps of SFT"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("model", sa.Column("policies", sa.JSON(), server_default="[]", nullable=False))
    op.add_column("run", sa.Column("sft_step", sa.Integer(), server_default="0", nullable=False))
