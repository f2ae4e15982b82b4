"""Real time: hosts as network namespaces, links as veth pairs, switches as processes or compiled threads."""
