"""The backend of this process: what Keras computes with, of those ``fit`` is supervised on."""

import keras

from trainers.backends import base


def _selected() -> base.Backend:
    # Not before: each imports its framework.
    if keras.backend.backend() == "jax":
        from trainers.backends.jax.jax_backend import JaxBackend  # noqa: PLC0415

        return JaxBackend()
    if keras.backend.backend() == "torch":
        from trainers.backends.torch.torch_backend import TorchBackend  # noqa: PLC0415

        return TorchBackend()
    from trainers.backends.tensorflow.tensorflow_backend import (  # noqa: PLC0415
        TensorFlowBackend,
    )

    return TensorFlowBackend()


backend: base.Backend = _selected()
