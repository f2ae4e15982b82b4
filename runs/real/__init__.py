"""Runs in real time: worker processes with sockets of their own, and the session that starts and watches them."""
