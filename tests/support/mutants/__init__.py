"""Mutation test: p4c's JSON is changed at random, loaded and run on both executors; nothing may crash or differ."""
