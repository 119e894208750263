"""Every decoder keeps the contract: a value or an error of one line, in time and in memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.fuzz.contract import bombs, damaged, hold, hold_in_memory
from tests.fuzz.decoders import DECODERS, Decoder
from tests.support.examples import examples

ROOT = Path(__file__).parents[2]
ALL = pytest.mark.parametrize("decoder", DECODERS.values(), ids=list(DECODERS))
PATIENT = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@ALL
def test_valid_bytes_are_read(decoder: Decoder) -> None:
    assert decoder.seeds
    for seed in decoder.seeds:
        assert hold(decoder, seed), seed


@ALL
@examples(40, **PATIENT)
@given(data=st.data())
def test_damaged_bytes(decoder: Decoder, data: st.DataObject) -> None:
    hold(decoder, data.draw(damaged(decoder.seeds)))


@ALL
@examples(10, **PATIENT)
@given(data=st.binary(max_size=300))
def test_any_bytes(decoder: Decoder, data: bytes) -> None:
    hold(decoder, data)


@ALL
@examples(4, **PATIENT)
@given(data=st.data())
def test_memory_is_in_proportion(decoder: Decoder, data: st.DataObject) -> None:
    hold_in_memory(decoder, data.draw(damaged(decoder.seeds)))


@pytest.mark.slow
@ALL
@examples(2000, **PATIENT)
@given(data=st.data())
def test_damaged_bytes_at_length(decoder: Decoder, data: st.DataObject) -> None:
    hold(decoder, data.draw(damaged(decoder.seeds)))


PARTS = 4


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is Linux's")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.few(1)
@pytest.mark.thorough
def test_bombs_in_a_process_of_little_memory(part: int) -> None:
    """A process with room for 400 MB more reads every hostile input to its end."""
    names = list(DECODERS)[part::PARTS]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--bombs", *names],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.split() == [word for name in names for word in name.split()]


def test_every_decoder_has_bombs() -> None:
    assert all(sum(1 for _ in bombs(decoder)) > 10 for decoder in DECODERS.values())
