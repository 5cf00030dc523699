"""Records of the version before ``reasons``, which had their sentences alone.

An attempt that outlives an upgrade of its supervisor goes on writing them. This is the
one place where a sentence of ours is read, and whole openings only: a path, a version or
a word further on decides nothing. To be dropped when no such attempt can run any more.
"""

import re
from collections.abc import Mapping
from typing import Any

from supervisor.wire.reasons import RefusalReason, SizeSource

_REFUSALS = {
    RefusalReason.VERSIONS: re.compile(
        r"the version of (?:tensorflow|keras) cannot be told\Z"
        r"|(?:tensorflow|keras) \S+ is not supported \(exact resume leans on its internals\):"
    ),
    RefusalReason.MEMORY: re.compile(
        r"a batch of [0-9]+ samples does not fit into memory and is not sliced, as "
    ),
}
_MEASURED = re.compile(r"measured at [0-9]+ sizes\Z")


def refusal_reason(fields: Mapping[str, Any]) -> RefusalReason:
    """Of the record of a refusal: what it names, else what its opening tells."""
    if "reason" in fields:
        return RefusalReason.read(fields["reason"])
    said = str(fields.get("sentence"))
    found = (reason for reason, row in _REFUSALS.items() if row.match(said))
    return next(found, RefusalReason.OTHER)


def size_source(fields: Mapping[str, Any]) -> SizeSource:
    """Of the record of a slice: what it names; else whether it was measured."""
    if "source" in fields:
        return SizeSource.read(fields["source"])
    measured = _MEASURED.match(str(fields.get("planned")))
    return SizeSource.OTHER if measured is None else SizeSource.MEASURED
