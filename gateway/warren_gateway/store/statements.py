"""Statements of the transactions that each op of a client goes through: they are built once, since building one costs
ten times running it.

They are of tables and not of classes, and run on a session's connection: what the session has loaded is not brought up to
date by them, and what was changed in it is not written before them. Names that begin with `its_` tell which row is meant;
an update sets what else it is given.
"""

from typing import cast

from sqlalchemy import Table, inspect
from sqlmodel import SQLModel


def table(row: type[SQLModel]) -> Table:
    """Of the rows of this class."""
    return cast("Table", inspect(row).local_table)
