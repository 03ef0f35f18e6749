"""The `warren` command. Every module here that costs time to import is imported when it is used."""
