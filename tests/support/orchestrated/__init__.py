"""Test bench for the orchestrator: a network, tasks and an orchestrator."""
