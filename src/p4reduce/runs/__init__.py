"""One run, from its description to its result.

Owned here: ``Experiment`` (what flags and YAML files say), the runner, training and plain tensors, the result with its
provenance, and the two ways to carry a run out: ``virtual/`` in this process, ``real/`` on sockets.
"""
