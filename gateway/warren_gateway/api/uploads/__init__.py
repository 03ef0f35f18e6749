"""What users upload: data sets and adapters."""
