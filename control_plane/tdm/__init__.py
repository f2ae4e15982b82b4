"""Time-division multiplexing of training jobs over an optical cross-connect.

Jobs, the network between their pods, and which job communicates when, over which circuits. Nothing here sends a packet:
a `Schedule` is what comes out, and whoever has a fabric plays it.

The source is "Scheduling Multiple AI models in Optical Data Center Networks with a time-division multiplexing-based
Multi-Stage Strategy" (Tang, Chen, Zhu; USTC). Numbers of equations and algorithms are the paper's. Where it is silent,
or contradicts itself, the docstring of what follows it says how it is read here.
"""
