"""What planning is held against, without packets: a part for each kind of figure, and the table of bars."""
