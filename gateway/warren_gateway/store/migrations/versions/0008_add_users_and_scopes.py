"""Add users, scopes of keys and the audit log"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

ALL_SCOPES = ["admin", "submit", "read", "env-worker", "infer"]
"""Keys of before could do everything; those of users who are no admins lose `admin` by that."""


def upgrade() -> None:
    op.create_table(
        "account",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("is_admin", sa.Boolean(), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("disabled_s", sa.Float(), nullable=True),
        sa.Column("removed_s", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.execute(
        "INSERT INTO account (name, is_admin, created_s)"
        " SELECT owner, owner = 'local', min(created_s) FROM api_key GROUP BY owner"
    )
    with op.batch_alter_table("api_key", schema=None) as batch_op:
        batch_op.add_column(sa.Column("name", sa.String(), nullable=False, server_default="key"))
        batch_op.add_column(
            sa.Column("scopes", sa.JSON(), nullable=False, server_default=json.dumps(ALL_SCOPES))
        )
        batch_op.add_column(sa.Column("expires_s", sa.Float(), nullable=True))
        batch_op.add_column(sa.Column("last_used_s", sa.Float(), nullable=True))
        batch_op.create_foreign_key("fk_api_key_owner", "account", ["owner"], ["name"])
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_audit_user", "audit", ["user"], unique=False)
