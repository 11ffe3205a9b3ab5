"""What the pipeline talks to, as Dagster resources."""
