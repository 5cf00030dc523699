"""The promise of a bit-exact resume: given, or why not."""

from collections.abc import Sequence
from typing import Any, Protocol

from trainers.backends.selected import backend
from trainers.process.script import unrepeatable_draws

SLICED = (
    "the batch is worked through in slices: the same samples, steps and schedule, but"
    " sums are added in another order"
)
DEVIATES = (
    "the batch is worked through in slices: the same samples, steps and schedule, but"
    " what is computed is not quite the same: {}"
)
REDUCED = "each batch is made several smaller ones, with an update each"
HIDDEN_STATE = (
    "the train step draws from TensorFlow's own random operations (tf.random.uniform,"
    " say), whose state nobody can read: samples are neither repeated nor skipped, but"
    " what is drawn after a restart is not the same (use tf.random.stateless_* or"
    " keras.random)"
)
UNSAVED = (
    "the train step changes variables ({}) that belong neither to the model nor to its"
    " layers or optimizers, but to the script alone, say: they are not saved, and begin"
    " anew after a restart (make them attributes of the model)"
)
LOST_SEAM = (
    "this model does not train through its train function: it is watched, but its"
    " state is not saved"
)


class Reporting(Protocol):
    """Who is told."""

    def promise(self, because: str | None) -> None:
        """Whether the result will be the same bit for bit after a restart."""


class Determinism:
    """What was said of it in one ``fit``, or loop of the script's own."""

    def __init__(self, report: Reporting) -> None:
        self._report = report
        self._told: dict[str, None] = {}
        self._heard = 0

    def tell(self, sentence: str | None) -> None:
        """Say once why bits are not promised."""
        if sentence is not None and sentence not in self._told:
            self._told[sentence] = None
            self._report.promise(sentence)

    def hear_of_draws(self) -> None:
        """What was drawn since the last time, and cannot be drawn again, is told: cheap
        enough for each step."""
        sentences = unrepeatable_draws.sentences()
        while self._heard < len(sentences):
            self._heard += 1
            self.tell(sentences[self._heard - 1])

    @property
    def withdrawn(self) -> str | None:
        """Why bits are not promised; None: nothing was said against it so far."""
        self.hear_of_draws()
        return next(iter(self._told), None)

    def give(self) -> None:
        """Promise them, if nothing was said against it so far."""
        if self.withdrawn is None:
            self._report.promise(None)

    def look_into(self, model: Any, *, sliced: bool, known: Sequence[Any]) -> None:
        """The train function is traced: does it use what nobody can save?

        ``known``: variables that are followed, though they are none of the model's.
        """
        if backend.traces.draws_unseen(model):
            self.tell(HIDDEN_STATE)
        if sliced:  # slices count in variables of their own
            return
        saved = [variable for _, variable in backend.variables.listed(model)]
        saved += known
        count = backend.traces.changed_beside(model, saved)
        self.tell(UNSAVED.format(count) if count else None)
