"""The answer to a step that failed: whether training goes on in its process, and how."""

from dataclasses import dataclass, replace

from supervisor.wire.json_record import JsonRecord
from supervisor.wire.messages.directive import Directive


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAnswer(JsonRecord):
    """What is asked of the rest of the attempt; the names are those of the directive."""

    number: int
    """Of the failure that it answers (``RecordKind.STEP_FAILED``)."""
    goes_on: bool
    """False: the process ends, and another follows if that helps."""
    because: str = ""
    """For people."""
    slice_size: int | None = None
    calibrate: bool = False
    slice_ceiling: int | None = None
    restore_before_step: int | None = None
    skip: tuple[int, int] | None = None
    rate_factor: float = 1.0
    prove: bool = False

    def applied_to(self, directive: Directive) -> Directive:
        """``directive`` as it holds from here on."""
        return replace(
            directive,
            slice_size=self.slice_size,
            calibrate=self.calibrate,
            slice_ceiling=self.slice_ceiling,
            restore_before_step=self.restore_before_step,
            skip=self.skip,
            rate_factor=self.rate_factor,
            prove=self.prove,
        )
