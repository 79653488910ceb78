"""Whatever makes a data folder. Imports data and store, nothing that runs a model."""
