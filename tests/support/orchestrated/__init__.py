"""An orchestrator, a network and tasks on one bench, for tests."""
