"""Real-time switches between loopback UDP sockets: no root, namespace or fixed port needed."""
