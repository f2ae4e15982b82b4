"""Labs: a folder for each (README, skeleton, solution, packets), and in ``grading`` what grades them."""
