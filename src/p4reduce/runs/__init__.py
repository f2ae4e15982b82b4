"""One run, from its description to its result.

This package contains ``Experiment`` (the contents of flags and YAML files), the runner, training and plain tensors, the
result with its provenance, and the two ways to carry out a run: ``virtual/`` in this process, ``real/`` on sockets.
"""
