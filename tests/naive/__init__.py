"""Numbers of tables recomputed by plain loops over the Parquet and JSON files of runs, without Fathom's own code."""
