"""Mixed precision: what is set, and each way to set it wrongly."""

from collections.abc import Iterator
from typing import Any

import keras
import pytest

from trainers.toolbox.mixed_precision import (
    precision_faults,
    scaling_optimizer,
    use_mixed_precision,
)


@pytest.fixture(autouse=True)
def policy() -> Iterator[None]:
    """The policy is the process': as it was, afterwards."""
    before = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(before)


def _model(**last: Any) -> Any:
    inputs = keras.Input((4,))
    x = keras.layers.Dense(8, "relu")(inputs)
    return keras.Model(inputs, keras.layers.Dense(3, **last)(x))


def test_set_rightly() -> None:
    """Nothing is found in a model that is as it should be, of either type."""
    for dtype in ("bfloat16", "float16"):
        use_mixed_precision(dtype)
        model = _model(activation="softmax", dtype="float32")
        model.compile("adam", "sparse_categorical_crossentropy")
        assert precision_faults(model) == []
        assert model.layers[1].compute_dtype == dtype


def test_without_half_precision() -> None:
    """A model in float32 has no fault of this kind."""
    assert precision_faults(_model(activation="softmax"), keras.optimizers.SGD()) == []


def test_policy_after_the_layers() -> None:
    """It changes none of them."""
    model = _model()
    use_mixed_precision("float16")
    (fault,) = precision_faults(model, keras.optimizers.SGD())
    assert fault.startswith("the policy is mixed_float16, and no layer computes in")


def test_weights_in_half_precision() -> None:
    """ "float16" without "mixed_"."""
    keras.config.set_dtype_policy("float16")
    (fault,) = precision_faults(_model(dtype="float32"))
    assert "weights of dense" in fault
    assert "mixed_bfloat16" in fault


def test_probabilities_in_half_precision() -> None:
    """By the last layer's activation, or a layer that is one; of a Sequential as well."""
    use_mixed_precision()
    (fault,) = precision_faults(_model(activation="sigmoid", name="mask"))
    assert fault.startswith("mask gives probabilities in half precision")
    layers = [keras.layers.Dense(3), keras.layers.Softmax(name="shares")]
    (fault,) = precision_faults(keras.Sequential([keras.Input((4,)), *layers]))
    assert fault.startswith("shares gives")


def test_float16_without_a_scale() -> None:
    """In a loop of one's own; the optimizer that is given scales."""
    use_mixed_precision("float16")
    plain = keras.optimizers.Adam()
    (fault,) = precision_faults(_model(), plain)
    assert fault.startswith("float16 without a loss scale")
    scaled = scaling_optimizer(plain)
    assert precision_faults(_model(), scaled) == []
    assert scaling_optimizer(scaled) is scaled


def test_bfloat16_needs_no_scale() -> None:
    """Its exponent is that of float32."""
    use_mixed_precision("bfloat16")
    plain = keras.optimizers.Adam()
    assert scaling_optimizer(plain) is plain
    assert precision_faults(_model(), plain) == []


def test_fixed_scale() -> None:
    """A scale that never grows again."""
    use_mixed_precision("float16")
    fixed = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(), dynamic_growth_steps=10**9
    )
    (fault,) = precision_faults(_model(), fixed)
    assert fault.startswith("the loss scale cannot grow again")


def test_another_type() -> None:
    """There are two halves."""
    with pytest.raises(ValueError, match="expected 'bfloat16' or 'float16'"):
        use_mixed_precision("float8")  # type: ignore[arg-type]


def test_a_scale_of_the_optimizer_is_fixed() -> None:
    """``loss_scale_factor`` scales, and never adapts; given to ``scaling_optimizer`` it is
    replaced."""
    use_mixed_precision("float16")
    fixed = keras.optimizers.SGD(loss_scale_factor=1024.0)
    (fault,) = precision_faults(_model(), fixed)
    assert fault.startswith("the loss scale is fixed at 1024, so that gradients may")
    assert precision_faults(_model(), scaling_optimizer(fixed)) == []


@pytest.mark.parametrize("policy_of", ["bfloat16", "float16"])
@pytest.mark.parametrize("optimizer", ["sgd", None, keras.optimizers.SGD])
def test_no_optimizer(policy_of: Any, optimizer: Any) -> None:
    """A name or a class is none, whatever the policy."""
    use_mixed_precision(policy_of)
    with pytest.raises(
        TypeError, match=r"give one of Keras, as keras\.optimizers.Adam"
    ):
        scaling_optimizer(optimizer)


@pytest.mark.parametrize("model", [None, "model.keras", [], keras.Sequential])
def test_no_model(model: Any) -> None:
    """A path or a class is none."""
    with pytest.raises(TypeError, match=r"give the keras\.Model itself"):
        precision_faults(model)


def test_no_weights_yet() -> None:
    """Of a model that is not built nothing could be found, which is no all-clear."""
    keras.config.set_dtype_policy("float16")
    with pytest.raises(ValueError, match="is not built: call it once on a batch"):
        precision_faults(keras.Sequential([keras.layers.Dense(3)]))
