"""Programs made wrong: p4c's JSON, mutated at random, loaded and run on both executors; nothing may crash or differ."""
