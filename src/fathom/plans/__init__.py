"""Plans: many runs, the studies of them, and a report, from one command."""
