"""Small files that would take much memory: it is said how much, and refused beyond a limit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from safle import Accumulator, Evaluation, LinearEncoder, Statistics, count, decode, encode
from safle.basics.memory import MAX_MEMORY, most_memory
from safle.encoders.codes import Block, CodeSpace, Layout
from safle.errors import EncoderMismatch, NotEnoughMemory, SettingsError, WireError
from safle.statistics.histogram import Histogram
from safle.wire.statistics import bytes_of_gram
from support.data_sets import fixed_encoder
from support.forging import Forgery, at_most, peak_of

UNITS = {"kB": 1e3, "MB": 1e6, "GB": 1e9}


def wide(columns, samples=0):
    """A true file of so many columns: of no samples, or of one whose features are all zero."""
    encoder = LinearEncoder(np.zeros(columns - 1), np.ones(columns - 1))
    if samples:
        return encode(count(encoder, np.zeros((1, columns - 1)), ["a"]))
    # The file of few columns, which takes no memory to make, with another layout.
    forged = Forgery.of(encode(Statistics.empty(fixed_encoder("linear").space)))
    forged.header["layout"] = encoder.layout.to_json()
    return forged.to_bytes()


@pytest.mark.parametrize("samples", [0, 1])
def test_a_small_file_of_many_columns_is_refused_unless_the_caller_allows_more(
    samples, monkeypatch
):
    data = wide(3_000, samples)
    assert len(data) < 600
    assert decode(data).dim == 3_000
    monkeypatch.setenv("SAFLE_MOST_MEMORY", "10 MB")
    with pytest.raises(WireError, match=r"takes [\d.]+ MB; the limit is 10.0 MB.*MOST_MEMORY="):
        decode(data)
    assert decode(data, limit=10**9).dim == 3_000
    monkeypatch.setenv("SAFLE_MOST_MEMORY", "0.5GB")
    assert decode(data).dim == 3_000


def test_the_limit_is_two_gigabytes_and_said_in_words():
    assert most_memory() == MAX_MEMORY == 2**31
    # Of 540 bytes: 3.6 GB, when nobody refused it.
    with pytest.raises(WireError, match=r"takes [\d.]+ GB; the limit is 2.1 GB"):
        decode(wide(26_000))


def test_wide_empty_file_takes_no_memory_with_the_encoder():
    data = wide(14_000)
    assert len(data) < 3_500
    started = time.process_time()
    with at_most(1_000_000), pytest.raises(EncoderMismatch, match="another layout"):
        decode(data, space=fixed_encoder("linear").space)
    layout = LinearEncoder(np.zeros(13_999), np.ones(13_999)).layout
    said = bytes_of_gram(layout, 0, 0, form="whole")
    with at_most(5_000_000), pytest.raises(WireError, match="the limit is"):
        decode(data, limit=said - 1)
    assert peak_of(lambda: decode(data)) <= said
    assert time.process_time() - started < 5


def test_a_histogram_that_takes_more_than_the_limit_is_refused():
    grid = Histogram.empty(0, 1, feature_dim=2, bins=50_000)
    data = encode(grid.count(np.zeros((1, 2))))
    assert len(data) < 1_000
    assert decode(data, Histogram, limit=5_000_000).sample_count == 1
    with at_most(1_000_000), pytest.raises(WireError, match=r"4.8 MB; the limit is 4.0 MB"):
        decode(data, Histogram, limit=4_000_000)


def test_evaluation_counts_that_take_more_than_the_limit_are_refused():
    data = encode(Evaluation.empty("0" * 64, [*range(100)]))
    assert len(data) < 2_000
    assert decode(data, Evaluation, limit=4_000_000).sample_count == 0
    with at_most(1_000_000), pytest.raises(WireError, match=r"3.5 MB; the limit is 3.0 MB"):
        decode(data, Evaluation, limit=3_000_000)


@pytest.mark.parametrize("text", ["", "8 apples", "-1", "1e9", "9" * 40])
def test_memory_limit_must_be_a_size(text, monkeypatch):
    monkeypatch.setenv("SAFLE_MOST_MEMORY", text)
    with pytest.raises(SettingsError, match="expected a size like 8GB"):
        most_memory()


def test_a_total_that_no_machine_can_hold_is_refused_before_it_is_made():
    with pytest.raises(NotEnoughMemory, match="a gram of 1048576 rows"):
        Accumulator(CodeSpace("0" * 64, Layout([Block("linear", 1 << 20)])))


def run(*arguments, **environment):
    """A command, and its own largest memory in bytes."""
    code = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], capture_output=True, text=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)\n"
        "print(done.returncode, done.stdout, done.stderr)\n"
    )
    safle = [sys.executable, "-c", "from safle.cli.main import run; run()"]
    command = [sys.executable, "-c", code, *safle, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | environment
    )
    peak, _, said = done.stdout.partition("\n")
    return int(peak), said


@pytest.mark.slow
@pytest.mark.parametrize("samples", [0, 1])
@pytest.mark.parametrize("command", ["sum", "inspect"])
def test_a_command_takes_what_was_announced(command, samples, tmp_path):
    small, large = tmp_path / "small.stats", tmp_path / "large.stats"
    small.write_bytes(wide(8, samples))
    large.write_bytes(wide(14_000, samples))

    def took(path, **environment):
        output = ["--allow-empty", "-o", tmp_path / f"{path.stem}.out.stats"]
        return run(command, path, *(output if command == "sum" else []), **environment)

    usual, _ = took(small)
    peak, said = took(large, SAFLE_MOST_MEMORY="1MB")
    assert said.startswith("1 ")
    announced, unit = re.search(r"takes ([\d.]+) ([kMG]B)", said).groups()
    assert peak < usual + 100e6
    peak, said = took(large)
    assert said.startswith("0 "), said
    assert peak - usual <= 1.5 * float(announced) * UNITS[unit]
