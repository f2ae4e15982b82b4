"""A real model to train: a multi-layer perceptron on the digits that scikit-learn ships, in NumPy."""
