"""The variables of a model in a snapshot: which are stored, and what becomes of others."""

import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from trainers.backends import model_listing
from trainers.backends.tensorflow import model_variables
from trainers.state import fit_state, variable_state


def holding(variable: tf.Variable) -> keras.Model:
    """A model that keeps ``variable`` as an attribute."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.extra = variable
    return model


def through_a_snapshot(model: keras.Model, into: keras.Model) -> list[str]:
    """The state of ``model`` given to ``into``; what was told when it was captured."""
    state, tensors, told = fit_state.capture(model, [], {})
    stored = {tensor.name: np.array(tensor.read()) for tensor in tensors}
    fit_state.restore(into, [], state, stored)
    return told


def test_complex_variables_of_double_precision() -> None:
    """The format has no type for them: they are stored as pairs of floats."""
    values = np.array([[1 + 2j, 3.5 - 1j], [0, np.pi * 1j]], "complex128")
    model, anew = holding(tf.Variable(values)), holding(tf.Variable(values * 0))
    assert through_a_snapshot(model, anew) == []
    assert np.array_equal(anew.extra.numpy(), values)
    one = holding(tf.Variable(tf.constant(2 - 3j, tf.complex128)))
    through_a_snapshot(one, two := holding(tf.Variable(one.extra * 0)))
    assert two.extra.numpy() == 2 - 3j


def test_what_is_trained_and_not_stored_is_not_gone_on_without() -> None:
    """A run that goes on with weights as they were at the beginning would look like one
    that was resumed."""

    def shapeless() -> keras.Model:
        return holding(tf.Variable([1.0], shape=tf.TensorShape(None)))

    told = fit_state.capture(shapeless(), [], {})[2]
    assert ["has no fixed shape" in one for one in told] == [True]
    with pytest.raises(fit_state.StateMismatchError, match="cannot be given back"):
        through_a_snapshot(shapeless(), shapeless())


def test_text_that_is_not_stored_does_not_hinder() -> None:
    """Nothing is trained in a variable of strings: it is told of, and left as it is."""
    anew = holding(tf.Variable(["there"]))
    told = through_a_snapshot(holding(tf.Variable(["here"])), anew)
    assert ["not saved" in one for one in told] == [True]
    assert anew.extra.numpy().tolist() == [b"there"]


def test_what_is_kept_of_a_variable_does_not_keep_it() -> None:
    """A model that is gone takes no memory, whatever was known of it."""
    model = holding(tf.Variable(tf.ones(3)))
    found = weakref.ref(model.extra)
    stored = variable_state.tensors_of(variable_state.storable(model)[0])
    assert [1.0, 1.0, 1.0] in [one.read().tolist() for one in stored]
    again = variable_state.tensors_of(variable_state.storable(model)[0])
    assert all(one is two for one, two in zip(stored, again, strict=True))
    del model
    gc.collect()
    assert found() is None


def test_no_state_is_in_what_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look into all that Keras keeps in a model finds nothing more."""
    inner = keras.Sequential([keras.Input((2,)), keras.layers.BatchNormalization()])
    inner.compile("adam", "mse")
    model = keras.Sequential([keras.Input((2,)), inner, keras.layers.Dropout(0.5)])
    model.compile("adam", "mse", metrics=["mae"])
    model.held = [keras.metrics.Mean(), tf.Variable(1.0)]
    model.train_on_batch(np.ones((4, 2)), np.ones((4, 2)))
    found = [id(one) for _, one in model_variables.listed(model)]
    monkeypatch.setattr(model_listing, "NO_STATE_IN", frozenset())
    assert [id(one) for _, one in model_variables.listed(model)] == found
    assert len(found) > 10
