"""Where code that is not trusted runs, as configs and operators say it."""
