"""The cost of losses: time over the lower bound, questions, and needless repetitions."""
