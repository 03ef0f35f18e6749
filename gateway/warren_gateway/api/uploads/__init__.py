"""What users upload: data sets, adapters and base models."""
