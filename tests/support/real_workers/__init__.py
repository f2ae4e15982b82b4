"""Worker processes on loopback sockets, joined by the compiled P4 program; each datagram is a frame."""
