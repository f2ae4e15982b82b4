"""Plans, predictions, table entries, installation over P4Runtime, and checks."""
