"""Records of the remote tier: read back as they were written, or not at all."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.jobs.remote.remote_tier import part_name
from supervisor.host.remote.remote_records import (
    FORMAT,
    SealRecord,
    claim_record,
    encoded,
    seal_record,
)
from tests.support import remote_tiers

SEAL = SealRecord(
    format=FORMAT, job="train", run_id=remote_tiers.RUN_ID, serial=3, step=30, fit=0,
    fit_done=False, tensors_hash="sha256:0", wall_time=1.0,
    files={"a": [[part_name(0, "0" * 64), 7]]},
)  # fmt: skip


def test_records_are_read_back() -> None:
    """To the field."""
    record = remote_tiers.claim_record(overrides={"deterministic": True})
    assert claim_record(encoded(record)) == record
    assert seal_record(encoded(SEAL)) == SEAL
    assert SEAL.parts == {part_name(0, "0" * 64): 7}


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_flipped_bit_makes_it_none(at: int, bits: int) -> None:
    """A record that is damaged is no record; nothing is believed of it."""
    content = bytearray(encoded(SEAL))
    content[at % len(content)] ^= bits
    found = seal_record(bytes(content))
    assert found is None or found == SEAL


@given(st.binary(max_size=200))
def test_rubbish_is_none(content: bytes) -> None:
    """Whatever lies there."""
    assert seal_record(content) is None
    assert claim_record(content) is None


def test_another_version_is_refused() -> None:
    """Not guessed at; and so is a seal whose parts are none."""
    assert seal_record(encoded(replace(SEAL, format=FORMAT + 1))) is None
    for files in (
        {"a": [["x", 7]]},
        {"a": [7]},
        {"a": [[part_name(0, "0" * 64), "7"]]},
    ):
        bad = encoded(replace(SEAL, files=files))
        assert json.loads(bad)["files"] == files
        assert seal_record(bad) is None
    assert claim_record(None) is None
