"""The advisor of one attempt: gathers evidence, and tells when advice has changed."""

from dataclasses import dataclass, field

from supervisor.core.advisories.advisory import Advisory
from supervisor.core.advisories.evidence import Evidence
from supervisor.core.advisories.rules import advise, followed
from supervisor.core.lifecycle.events import Advised
from supervisor.host.telemetry.attempt_telemetry import AttemptView


@dataclass(kw_only=True)
class Advisor:
    """Looks at what an attempt tells, each time that it told something new."""

    advisories: tuple[Advisory, ...] = ()
    """What holds, or held, as far as it was told."""
    _judged: Evidence = field(default_factory=Evidence)

    def look(self, view: AttemptView) -> list[Advised]:
        """What is to be said now: nothing, or all that holds or held."""
        evidence = Evidence(steps=view.evidence)
        if evidence == self._judged:
            return []
        self._judged = evidence
        found = followed(self.advisories, advise(evidence))
        if found == self.advisories:
            return []
        self.advisories = found
        return [Advised(found)]
