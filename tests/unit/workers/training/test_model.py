"""The perceptron: its gradient is the derivative of its loss, its parameters are one vector."""

import numpy as np
import pytest

from p4reduce.workers.training.digits import DIGITS_LAYERS, Mlp


def batch(model, count, seed=1):
    generator = np.random.default_rng(seed)
    images = generator.standard_normal((count, model.layers[0]), np.float32)
    return images, generator.integers(0, model.layers[-1], count)


def test_digits_model_fills_a_window():
    assert Mlp().size == 266_890
    assert Mlp(DIGITS_LAYERS).size * 4 >= 1_000_000


def test_views_cover_the_vector_once():
    model = Mlp((3, 4, 2))
    flat = np.zeros(model.size, np.float32)
    for views in model.views(flat):
        for view in views:
            np.add(view, 1, out=view)
    assert (flat == 1).all()


def test_initial_weights_depend_on_the_seed_only():
    model = Mlp()
    assert np.array_equal(model.initial(3), model.initial(3))
    assert not np.array_equal(model.initial(3), model.initial(4))
    (first, bias), *_ = model.views(model.initial(3))
    assert first.std() == pytest.approx((2 / 64) ** 0.5, rel=0.02)
    assert not bias.any()
    assert first.dtype == np.float32


@pytest.mark.parametrize("layers", [(5, 3), (5, 4, 3), (5, 6, 4, 3)])
def test_gradient_is_the_derivative(layers):
    model = Mlp(layers)
    parameters = model.initial(0) + np.float32(0.1)
    images, labels = batch(model, 7)
    gradient = np.empty_like(parameters)
    model.loss_and_gradient(parameters, images, labels, gradient)
    unused = np.empty_like(parameters)
    step = 1e-2
    for index in range(model.size):
        moved = [parameters.copy() for _ in range(2)]
        moved[0][index] += step
        moved[1][index] -= step
        high, low = (model.loss_and_gradient(one, images, labels, unused) for one in moved)
        assert gradient[index] == pytest.approx((high - low) / (2 * step), abs=2e-3)


def test_loss_of_equal_logits_is_the_logarithm_of_the_classes():
    model = Mlp((4, 10))
    images, labels = batch(model, 5)
    zero = np.zeros(model.size, np.float32)
    assert model.loss_and_gradient(zero, images, labels, np.empty_like(zero)) == pytest.approx(np.log(10), rel=1e-6)


def test_large_logits_stay_finite():
    model = Mlp((4, 3))
    images, labels = batch(model, 5)
    parameters = np.full(model.size, 1e4, np.float32)
    parameters[::3] = -1e4
    gradient = np.empty_like(parameters)
    assert np.isfinite(model.loss_and_gradient(parameters, images * np.float32(100), labels, gradient))
    assert np.isfinite(gradient).all()


def test_flops_counts_weights_not_biases():
    assert Mlp((3, 4, 2)).flops(10) == 6 * 10 * (12 + 8)


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match="layers"):
        Mlp((4,))
    with pytest.raises(ValueError, match=r"expected 266890 parameters, got an array of shape \(3,\)"):
        Mlp().views(np.zeros(3, np.float32))
