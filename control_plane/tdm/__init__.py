"""Time-division multiplexing of training jobs over an optical cross-connect.

The package covers jobs, the network between their pods, and which job communicates when, over which circuits. It sends
no packets: the result is a `Schedule`, which a fabric carries out.

The source is "Scheduling Multiple AI models in Optical Data Center Networks with a time-division multiplexing-based
Multi-Stage Strategy" (Tang, Chen, Zhu; USTC). Numbers of equations and algorithms are the paper's. Where the paper is
silent or contradicts itself, the docstring of the code in question says how it is read here.
"""
