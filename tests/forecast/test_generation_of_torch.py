"""Tokens that a decoder of Hugging Face generates: its weights and its cache are read for each."""

import pytest
from needs import require

require("torch")

from whichdevice.base.errors import StudyError
from whichdevice.forecast.products import ProgramRequest
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.torch.records import Traced
from whichdevice.forecast.work import Work
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options


def record(mode, size=1, name="hf:meta-llama/Llama-2-7b-hf"):
    request = ProgramRequest(
        device="H100 SXM", workload="llm", module=name, precision="mixed_bfloat16", batch_size=size, mode=mode,
        sequence_length=1024,
    )  # fmt: skip
    _, _, facts, work = Traced(request).record(request, find_target("H100 SXM"))
    return facts, work


def test_a_cache_holds_keys_and_values_of_all_layers():
    made = Model.read("hf:meta-llama/Llama-3.1-8B").workload(Options(1))
    assert made.cache_bytes() == 2 * 2 * 32 * 8 * 128


def test_a_token_reads_the_weights_and_the_cache():
    facts, work = record("decode", size=2)
    assert isinstance(work, Work) and facts.unit == "token" and facts.units_per_step == 2
    weights, cache = 2 * 6.74e9, 2 * 1024 * 2 * 2 * 32 * 4096
    assert facts.memory_parts["cache"] == cache
    assert weights < work.bytes < 1.1 * (weights + cache)


def test_a_prompt_is_half_of_the_sequence():
    _, work = record("prefill")
    assert work.operations == pytest.approx(2 * 6.6e9 * 512, rel=0.05)


def test_what_generates_nothing_is_one_line():
    with pytest.raises(StudyError, match="for decoders of Hugging Face"):
        record("decode", name="hf:google-bert/bert-base-uncased")
