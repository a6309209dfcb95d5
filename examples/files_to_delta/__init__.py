"""Orders from Parquet and JSON files to a Delta table, with backfill and replay."""
