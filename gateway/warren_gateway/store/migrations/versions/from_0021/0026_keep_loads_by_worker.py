"""Keep what is to be loaded by worker, no longer by base model: what is known is forgotten, and told again"""

from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    op.execute("UPDATE scheduler SET loading = '{}'")
