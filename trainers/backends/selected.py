"""The backend of this process: only on TensorFlow is ``fit`` supervised so far."""

from trainers.backends.base import Backend
from trainers.backends.tensorflow.backend import TensorFlowBackend

backend: Backend = TensorFlowBackend()
