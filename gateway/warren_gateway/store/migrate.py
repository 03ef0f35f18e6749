"""Bring the database schema up to date with alembic, at every start of a gateway."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, text

MIGRATIONS = Path(__file__).parent / "migrations"
MIGRATING = 0x57415252454E
"""Key of the advisory lock that a migrating gateway holds."""


def alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("recursive_version_locations", "true")  # a folder for every twenty
    return config


def upgrade(engine: Engine) -> None:
    """Apply the migrations that are missing, in one transaction; replicas that start take turns."""
    config = alembic_config()
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATING})
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
