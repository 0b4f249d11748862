"""The migrations, one file per schema change."""
