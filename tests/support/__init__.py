"""Test helpers: models, recorders, targets and soak tests."""
