"""Bad input of every kind, and what Fathom says about it: one line, exit code 2, nothing half-written."""
