"""Real-time switches between UDP sockets on the loopback interface: no root, no namespace, no fixed port."""
