"""The study of priorities: what each policy does to jobs that share links, as rows, points, claims and figures."""
