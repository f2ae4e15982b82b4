"""The interface of training scripts, and the rendezvous where their calls meet.

This package contains the ``Communicator`` and the interface of its backends, the rendezvous that matches the calls of a
group's participants in virtual time, ``p4reduce launch`` (a coordinator, a process for each rank, messages between
them), and the errors of a group. The rendezvous gets a function that carries collectives, so this package does not
depend on plans.
"""
