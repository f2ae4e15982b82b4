"""Worker processes on loopback sockets, and the compiled P4 program between them, one datagram a frame."""
