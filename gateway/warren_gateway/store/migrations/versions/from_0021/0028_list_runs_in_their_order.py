"""Find the newest runs of an owner, or in a state, without sorting all of them"""

from alembic import op

revision = "0028"
down_revision = "0027"

INDEXES = {
    "ix_run_owner": ["owner", "id"],
    "ix_run_owner_state": ["owner", "state", "id"],
    "ix_run_state": ["state", "id"],
}


def upgrade() -> None:
    for name, columns in INDEXES.items():
        op.drop_index(name, "run")
        op.create_index(name, "run", columns)
