"""What all rooms stand on: errors, options, registries, progress, processes and safe reading."""
