"""What supervision asks of a framework that Keras trains on.

Each part is asked for today by code above ``trainers.backends``. What is the same on every
backend stands in ``keras_compat`` and ``epoch_iterator`` instead; ``tf.data`` is a library
for data, whatever trains on them, and its modules are used by their names.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from trainers.backends.computing_device import ComputingDevice
from trainers.backends.memory.allocator_figures import MemoryMark
from trainers.backends.slices.slice_support import SliceSupport
from trainers.backends.trial_support import StepTrials
from trainers.process.attempt_reporting import Attempt


class FitSupport(Protocol):
    """The loop of ``fit``, and what a model is on this framework."""

    @property
    def SupervisedEpochIterator(self) -> type[Any]:  # noqa: N802  # a class
        """Keras' epoch iterator with ``epoch_iterator.Supervised`` before it."""

    @property
    def TAKES_ARRAYS(self) -> bool:  # noqa: N802  # a constant
        """Whether batches come from Keras' adapters as they are, not by ``tf.data``."""

    @property
    def LOADS(self) -> bool:  # noqa: N802  # as above
        """Whether they do so by loaders of PyTorch."""

    @property
    def SLICES(self) -> bool:  # noqa: N802  # as above
        """Whether a batch can be worked through in slices."""

    @property
    def GLANCES_COUNT(self) -> bool:  # noqa: N802  # as above
        """Whether the batch that Keras looks at before ``fit``, to build a model on several
        devices, begins the shuffles of the data once more."""

    @property
    def STANDS_IN(self) -> bool:  # noqa: N802  # as above
        """Whether a loop that begins within an epoch needs the result of a step before
        the first: it is handed one that is not run."""

    def self_test(self) -> list[str]:
        """What of the framework is not as expected inside; empty where supported."""

    def replace_epoch_iterator(self) -> None:
        """Let ``fit`` and ``evaluate`` make ours their epoch iterator."""

    def why_not_followed(self, model: Any, data: Any) -> str | None:
        """Why a ``fit`` of ``model`` on ``data`` cannot be resumed; None if it can."""

    def replicas_of(self, model: Any) -> int:
        """On how many devices at once it trains."""

    def parts_batches(self, model: Any) -> bool:
        """Whether each batch is parted between the devices that there are, one or more."""

    def has_own_train_step(self, model: Any) -> bool:
        """Whether its class has a ``train_step`` of the script's own."""

    def logs_of(self, result: Any) -> Any:
        """What of the train function's ``result`` is its logs."""

    def not_run(self, arguments: tuple[Any, ...], logs: Any) -> Any:
        """What a train function of these ``arguments`` returns for a step that is not
        run: the ``logs`` of an earlier one."""

    def element_spec_of(self, model: Any, arguments: dict[str, Any]) -> Any:
        """Shapes and dtypes of a batch of the data that a ``fit`` is given so, which is
        left as that ``fit`` leaves the data and the model before it trains."""

    def updates(self, model: Any) -> int | None:
        """Updates the optimizer made so far; None before it has a counter."""

    def precision(self, model: Any, *, wanted: str) -> str:
        """``wanted`` where any layer computes by that dtype policy, else one that does."""

    def computing_device(self) -> ComputingDevice:
        """What it computes on in this process: the first GPU, where it sees any."""

    def finds_no_gpu(self) -> bool:
        """Whether the framework finds none at all, whatever a script then uses."""

    def why_device_not_exact(self) -> str | None:
        """Why this device's arithmetic is not the same twice; None if it is."""

    def why_replicas_not_exact(self, model: Any, validation_data: Any) -> str | None:
        """Why training on several replicas is not the same twice; None if it is."""

    def why_step_not_exact(self, model: Any, *, alike: bool) -> str | None:
        """Why a step is not the same twice; ``alike``: all batches are of one size."""

    @property
    def WHY_NOT_RECOMPUTED(self) -> str | None:  # noqa: N802  # a constant
        """Why activations cannot be computed again, in half a sentence; None: they can."""

    def recompute(self, model: Any, element_spec: Any) -> tuple[int, int]:
        """Let the layers of ``model``, which is built, be computed again in the backward
        pass: how many are, and how many are left out, as a second call would change
        something; ``element_spec``: shapes and dtypes of a batch."""

    def of_any_size(self, element_spec: Any) -> Any:
        """Shapes and dtypes of a batch of any number of samples."""

    def zeros_of(self, element_spec: Any) -> Any:
        """A batch of these shapes and dtypes, of one sample where any number may be; of
        zeros, or any of the data."""

    def out_of_memory(self, text: str) -> Exception:
        """What the framework raises where memory runs out."""


class ModelVariables(Protocol):
    """The state of a model."""

    def listed(self, model: Any) -> list[tuple[str, Any]]:
        """Every variable that decides the rest of training, once, after what it is."""

    def variables(self, model: Any) -> list[tuple[str, Any]]:
        """The same, each after a readable name."""

    def in_place(self, model: Any) -> AbstractContextManager[None]:
        """Within, the variables have their values between two steps, too, wherever the
        loop keeps them; afterwards all is as it was."""

    def take_over(self, model: Any) -> None:
        """Let the variables have their values, and the loop take them from there."""

    def held_by_loop(self, model: Any) -> bool:
        """Whether the loop keeps the values now, and the variables have none."""


class VariableValues(Protocol):
    """Values of variables and tensors, taken and given back."""

    def tensor_of(self, variable: Any) -> Any:
        """The framework's own variable inside Keras' one."""

    def dtype_of(self, variable: Any) -> str:
        """NumPy's name of the type of its value."""

    def shape_of(self, variable: Any) -> tuple[int, ...] | None:
        """Its shape; None: not a fixed one."""

    def values_of(self, variables: Sequence[Any]) -> list[Any]:
        """Their present values, which stay what they are; read in any thread later."""

    def array_of_value(self, value: Any) -> np.ndarray:
        """The array of what ``values_of`` gave."""

    def assign(self, variable: Any, array: np.ndarray) -> None:
        """Give ``variable`` the value ``array`` (same shape and dtype).

        Of one that has a copy for each replica that is the first; ``listed`` has the
        others, too.
        """

    def assign_whole(self, variable: Any, array: np.ndarray) -> None:
        """Give ``variable`` what ``framework_array`` had of it."""

    def assign_bytes(self, variable: Any, content: bytes) -> None:
        """Give ``variable`` the value whose bytes these are."""

    def framework_array(self, value: Any) -> np.ndarray | None:
        """The array of a tensor or variable; None for any other value.

        Of a variable that has a copy for each replica all of them, one after another.
        """

    def kind_of(self, value: Any) -> str:
        """What tells a tensor or variable from others when it is made again."""

    def tensor_array(self, value: Any) -> np.ndarray | None:
        """A look at the values of a tensor; None for any other value."""

    def framework_value(self, existing: Any, array: np.ndarray, kind: str) -> Any:
        """``existing`` with the value ``array`` if it is such a variable, else a new one
        of the ``kind`` that was told."""


class RandomStates(Protocol):
    """The framework's random states."""

    def global_seed(self) -> int | None:
        """The framework's global seed; None if the script set none."""

    def state(self) -> dict[str, Any]:
        """All that can be saved."""

    def put_back(self, state: dict[str, Any]) -> list[str]:
        """Give ``state`` back; a sentence for what does not fit."""


class StepTraces(Protocol):
    """What the compiled train function does."""

    @property
    def TRACES(self) -> bool:  # noqa: N802  # a constant
        """Whether steps are traced, which makes what variables they lack; else a step is
        run for it."""

    @property
    def MADE_AGAIN(self) -> bool:  # noqa: N802  # as above
        """Whether ``trace_train`` and ``trace_test`` make the traces of the next steps, so
        that they can be made with plain values of another time."""

    def is_compiled(self, model: Any) -> bool:
        """Whether its steps are; else they read plain values anew each time."""

    def trace_train(self, model: Any, element_spec: Any) -> None:
        """Trace a train step without running it. Raises what the script's step raises."""

    def trace_test(self, model: Any, element_spec: Any) -> None:
        """The same for a step of the validation."""

    def draws_unseen(self, model: Any) -> bool:
        """Whether the traced step draws from a random state that nobody can read."""

    def functions_that_draw(self) -> list[str]:
        """Names of all compiled functions that do. To be asked once: it takes 50 ms."""

    def changed_beside(self, model: Any, saved: Sequence[Any]) -> int:
        """Variables that the traced step changes and that are none of ``saved``."""


class StepFigures(Protocol):
    """What the framework counts of its steps anyway, as evidence for advice."""

    def gaps(self, batches: Any) -> Sequence[float] | None:
        """Seconds from each batch that the iterator ``batches`` handed out to the next one
        that was asked for, of the newest hundred, oldest first; None: not measured."""

    def tracing_clock(self) -> Callable[[], int] | None:
        """What tells the microseconds spent on tracing so far; None: nothing does."""

    def float64_products(self, model: Any) -> tuple[int, int] | None:
        """Matrix products and convolutions of the traced step in float64, and in all;
        None: not known."""

    def float64_is_meant(self) -> bool:
        """Whether the script set Keras' default type to it."""

    def wide_inputs(
        self, element_spec: Any, *, batch: int | None
    ) -> tuple[int, tuple[str, ...]]:
        """Bytes of a batch that come in float64, and the shapes that they come in."""

    def computes_on_cpu(self) -> bool:
        """Whether a step is over when the next batch is asked for."""


class FunctionCalls(Protocol):
    """Compiled functions that the script calls itself, and the variables they change.

    A variable is known by the number of its handle.
    """

    def quiet(self) -> AbstractContextManager[None]:
        """What is called and looked at within is no doing of the script's."""

    def look(self, follower: Any) -> None:
        """Tell ``follower`` of each look at a variable."""

    def look_away(self) -> None:
        """Tell nobody any more."""

    def variable(self, handle: int) -> Any | None:
        """That of this number; None: it is gone."""

    def handle_of(self, one: Any) -> int | None:
        """The number of a variable; None: it is part of a graph."""

    def under_tape(self) -> bool:
        """Whether a gradient may be taken through what is called now."""

    def traces(self, function: Any) -> int:
        """How often ``function`` was traced."""

    def trace(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Trace it for these arguments, as a call would; nothing is computed."""

    def changed(self, function: Any) -> list[int]:
        """The variables that it changes, in an order that is always the same."""

    def changed_by_model(self, model: Any, name: str) -> list[int]:
        """Those that the model's function ``name`` changes."""

    def captured(self, function: Any) -> set[int]:
        """All that it uses."""

    def on_replicas(self, function: Any) -> bool:
        """Whether what it uses is a copy that belongs to one of several replicas."""

    def own_state(self, function: Any) -> tuple[set[str], set[str], set[str]]:
        """Operations that keep state elsewhere: random ones, Python's, others."""

    def is_tensor(self, value: Any) -> bool:
        """Whether it is one with a value."""

    def dtype_and_shape(self, tensor: Any) -> tuple[str, tuple[int | None, ...]]:
        """Of a tensor, an array or a variable."""

    def in_main_memory(self, tensor: Any) -> bool:
        """Whether it can be read without waiting for a device."""

    def array_of(self, tensor: Any) -> np.ndarray:
        """Its values: a view where it lies in main memory."""

    def tensor_of(self, array: np.ndarray) -> Any:
        """A tensor with these values."""


class HiddenParts(Protocol):
    """State of the framework's that belongs to no model."""

    def is_variable(self, value: Any) -> bool:
        """Whether it is a variable, or a random generator, whose state is one."""

    def state_of(self, value: Any) -> Any:
        """The variable that it is, or keeps its state in."""

    def variables_of(self, owner: Any, *, below: bool) -> list[Any]:
        """All of an object of Keras, of a model those of its optimizer, too; ``below``:
        only those that a model with this layer does not know of."""

    def global_generator(self) -> Any | None:
        """The state of the framework's global generator, where there is one."""

    def mark(self, variable: Any) -> Any:
        """What ``same_mark`` compares, once ``variable`` may have changed."""

    def same_mark(self, before: Any, now: Any) -> bool:
        """Whether nothing has changed between two marks of one variable."""

    def is_table(self, value: Any) -> bool:
        """Whether it is a lookup table that training can change."""

    def names_of_parts(self, value: Any) -> frozenset[str]:
        """Attributes under which such an object keeps what ``held_in`` has of it."""

    def names_of_tensors(self, value: Any) -> frozenset[str]:
        """Those of them under which it keeps variables."""

    def held_in(self, value: Any) -> list[tuple[str, Any]]:
        """What an object of the framework's own, that is none of Keras', keeps by name."""

    def table_content(self, table: Any) -> tuple[Any, Any]:
        """The keys of ``table``, and the value of each: arrays, of strings lists."""

    def fill_table(self, table: Any, keys: Any, values: Any) -> None:
        """Let ``table`` hold these, and nothing else."""

    def python_function(self, value: Any) -> Any | None:
        """What a compiled function was made of; None: it is none."""

    def build_optimizers(self, models: Iterable[Any]) -> None:
        """Make the variables of their optimizers, which the first step would make."""


class MemoryProbe(Protocol):
    """The allocator at step boundaries, on the page."""

    glance_due: float

    def begin(self) -> None:
        """Memory is that of steps from here on."""

    def forget(self) -> None:
        """Steps are others from here on."""

    def mark(self) -> MemoryMark | None:
        """What is in use now; None: nothing tells, or no reading was taken yet."""

    def limit(self) -> int | None:
        """Bytes in use there at most; None: there is none, or it is not known yet."""

    def due(self, now: float) -> bool:
        """Whether a reading is due."""

    def glance(self, now: float, *, step: int) -> None:
        """Look at what is in use, and read if it has moved."""

    def look(self, *, step: int) -> Any | None:
        """Read and publish; None: this allocator keeps no figures."""


class StepRecovery(Protocol):
    """Whether the process is whole after a step that failed."""

    def why_never(self, model: Any) -> str | None:
        """Why a ``fit`` of ``model`` cannot be made again in its process; None: it can."""

    def why_memory_in_doubt(self, model: Any) -> str | None:
        """Why memory may not be whole after a step of ``model`` that found none, in half
        a sentence; None: nothing speaks against it."""

    def memory_in_use(self) -> int | None:
        """Bytes that the framework has handed out now; None: it does not count them."""

    def batch_bytes(self, element_spec: Any, batch: int | None) -> int:
        """What a batch of these specs takes of that, of ``batch`` samples where they do
        not say; 0: it is not looked at."""


class Backend(Protocol):
    """One framework."""

    fit: FitSupport
    variables: ModelVariables
    values: VariableValues
    random: RandomStates
    traces: StepTraces
    hidden: HiddenParts
    evidence: StepFigures
    recovery: StepRecovery
    trials: StepTrials

    @property
    def slicer(self) -> str:
        """The module whose ``prepare`` lets a model train in slices: it is imported where
        that is asked for. Where ``fit.SLICES`` is true."""

    @property
    def calls(self) -> FunctionCalls:
        """Where loops of the script's own are followed."""

    @property
    def slices(self) -> SliceSupport:
        """Where ``fit.SLICES`` is true."""

    def digest(self, model: Any, element_spec: Any) -> str | None:
        """What decides the memory of a step beside the batch; None: not yet known."""

    def memory_probe(self, attempt: Attempt, *, limit_bytes: int | None) -> MemoryProbe:
        """A probe of its allocator; ``limit_bytes``: what the supervisor set."""
