"""The side of orchestrated tasks where hosts are: in this process, or in one of its own."""
