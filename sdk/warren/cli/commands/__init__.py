"""The subcommands: a folder for each panel of `warren --help`."""
