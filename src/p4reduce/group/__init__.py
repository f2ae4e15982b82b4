"""What a training script sees, and where its calls meet.

Owned here: the ``Communicator`` and what a back end must do for it, the rendezvous that matches the calls of a
group's participants in virtual time, ``p4reduce launch`` (a coordinator, a process for each rank, messages between
them), and the errors of a group. Who carries a collective out is a function that the rendezvous is given: nothing
here knows of plans.
"""
