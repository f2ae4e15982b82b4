"""Scheduling AI tasks: which tree each task gets, given what the others and background traffic already use."""
