"""Keep with a download which checkpoint it is of; those that were given before end, an hour early at most"""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    op.execute(sa.text("DELETE FROM tinker_download"))
    op.add_column("tinker_download", sa.Column("model_id", sa.String(), nullable=True))
    op.add_column("tinker_download", sa.Column("kept", sa.JSON(), nullable=True))
