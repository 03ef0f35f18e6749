"""Bring the database schema up to date, at every start of a gateway.

An empty database gets the tables as they are now, and one that has some gets the migrations that it lacks. That both
come to the same is held by a test.

Invariant: an empty database gets its tables, their first row and the number of the newest migration in one transaction.
"""

from pathlib import Path

from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, inspect, select, text
from sqlmodel import Session, SQLModel

from warren_gateway.store.tables import SchedulerRow

MIGRATIONS = Path(__file__).parent / "migrations"
MIGRATING = 0x57415252454E
"""Key of the advisory lock that a migrating gateway holds."""
_VERSION = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))


class NewerDatabase(Exception):
    """Its newest migration is none of ours."""


def upgrade(engine: Engine) -> None:
    """Replicas that start together take turns. Raises `NewerDatabase`."""
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATING})
        found = _revision(connection)
        if found is None:
            _create(connection)
        elif found != newest_revision():
            apply_migrations(connection)


def newest_revision() -> str:
    """The files of migrations begin with their revisions, which count up."""
    return max(path.name.split("_")[0] for path in MIGRATIONS.glob("versions/**/[0-9]*.py"))


def apply_migrations(connection: Connection) -> None:
    """Those that are missing. Raises `NewerDatabase`."""
    # Alembic takes longer to import than most gateways take to look for migrations in vain.
    from alembic import command
    from alembic.config import Config
    from alembic.util.exc import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("recursive_version_locations", "true")  # a folder for every twenty
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise NewerDatabase(str(error)) from error


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSION.name):
        return None
    return connection.execute(select(_VERSION.c.version_num)).scalar()


def _create(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # its driver begins nothing before a CREATE
    SQLModel.metadata.create_all(connection)
    session = Session(connection)
    session.add(SchedulerRow(id=1, reserved={}))
    session.flush()
    _VERSION.create(connection)
    connection.execute(_VERSION.insert().values(version_num=newest_revision()))
