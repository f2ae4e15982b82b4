"""What a training script sees: the Communicator, where its participants meet, and processes that `launch` starts."""
