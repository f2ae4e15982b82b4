"""A network that carries the frames of jobs: virtual time, real time, background traffic, and jobs in it."""
