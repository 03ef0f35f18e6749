"""`warren data prepare`: files of questions, in whatever layout, to one layout."""
