"""The interface of training scripts, and the rendezvous where their calls meet.

Owned here: the ``Communicator`` and what a back end must do for it, the rendezvous that matches the calls of a
group's participants in virtual time, ``p4reduce launch`` (a coordinator, a process for each rank, messages between
them), and the errors of a group. The rendezvous is given a function that carries collectives out: nothing here knows of
plans.
"""
