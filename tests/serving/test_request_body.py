"""A request's body is inputs of the model, or one line that says why not."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichdevice.records.exported import TensorSpecification
from whichdevice.serving.request_body import MalformedRequestError, parse_body

BYTES = TensorSpecification(name="images", dtype="uint8", shape=[None, 2, 3])
FLOATS = TensorSpecification(name="signals", dtype="float32", shape=[None, None, 2])
GOOD = [[1, 2, 3], [4, 5, 6]]


def parsed(content, wanted=BYTES, largest_batch=100):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return parse_body(body, wanted, largest_batch)


def reason(content, wanted=BYTES) -> str:
    with pytest.raises(MalformedRequestError) as error:
        parsed(content, wanted)
    assert error.value.status == 400
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    "content",
    [
        {"instances": [GOOD, GOOD]},
        {"instances": [{"images": GOOD}, {"images": GOOD}]},
        {"inputs": [GOOD, GOOD]},
        {"inputs": {"images": [GOOD, GOOD]}},
        {"signature_name": "serving_default", "instances": [GOOD, GOOD]},
    ],
)
def test_every_form_of_tensorflow_serving_gives_the_same_array(content):
    found = parsed(content)
    assert found.array.dtype == np.uint8
    assert found.array.tolist() == [GOOD, GOOD]
    assert found.form in content


def test_an_open_axis_takes_any_size():
    assert parsed({"instances": [[[1, 2.5], [3, 4], [5, 6]]]}, FLOATS).array.shape == (1, 3, 2)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff\xfe", "no UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5_000, "no JSON"),
        ([1, 2], "must be a JSON object"),
        ({}, "needs one of instances and inputs"),
        ({"instances": [GOOD], "inputs": [GOOD]}, "not both"),
        ({"instances": [GOOD], "extra": 1}, "unknown key extra"),
        ({"instances": [GOOD], "two\x1e\nlines": 1}, "unknown key two lines"),
        ({"instances": [GOOD], "signature_name": "train"}, "no signature train"),
        ({"instances": []}, "at least one example"),
        ({"instances": GOOD[0]}, "needs shape [batch, 2, 3], not [3]"),
        ({"instances": 5}, "must be a list"),
        ({"instances": [GOOD, [[1, 2, 3]]]}, "same shape for every example"),
        ({"instances": [[[1, 2], [3, 4]]]}, "needs shape [batch, 2, 3], not [1, 2, 2]"),
        ({"instances": [[[1, 2, "3"], [4, 5, 6]]]}, "numbers only"),
        ({"instances": [[[1, 2, None], [4, 5, 6]]]}, "numbers only"),
        ({"instances": [[[True, True, True]] * 2]}, "numbers only"),
        ({"instances": [[[1, 2, 3.5], [4, 5, 6]]]}, "whole numbers"),
        ({"instances": [[[1, 2, 256], [4, 5, 6]]]}, "between 0 and 255"),
        ({"instances": [[[1, 2, -1], [4, 5, 6]]]}, "between 0 and 255"),
        ({"instances": [[[1, 2, 10**30], [4, 5, 6]]]}, "numbers only"),
        ({"instances": [{"pictures": GOOD}]}, "one input is images; named were: pictures"),
        ({"instances": [{}]}, "named were: none"),
        ({"inputs": {"images": {"images": [GOOD]}}}, "numbers only"),
        (b'{"instances": [[[1, 2, NaN], [4, 5, 6]]]}', "NaN is no JSON number"),
        (b'{"instances": [[[1, 2, Infinity], [4, 5, 6]]]}', "Infinity is no JSON number"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(content, told):
    assert told in reason(content)


def test_one_long_text_among_many_takes_no_room_for_each():
    body = json.dumps({"instances": ["a" * 20_000, *[""] * 20_000]}).encode()
    tracemalloc.start()
    try:
        assert "numbers only" in reason(body)
        assert tracemalloc.get_traced_memory()[1] < 20e6  # as an array of texts: 1.6 GB
    finally:
        tracemalloc.stop()


def test_numbers_beyond_float32_are_refused():
    assert "too large for float32" in reason({"instances": [[[1e300, 0]]]}, FLOATS)
    assert "too large for float32" in reason(b'{"instances": [[[1e999, 0]]]}', FLOATS)


def test_more_examples_than_allowed_are_too_large():
    with pytest.raises(MalformedRequestError) as error:
        parsed({"instances": [GOOD] * 101})
    assert error.value.status == 413


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["images", "a"]), inner, max_size=2),
    max_leaves=12,
)


@given(st.fixed_dictionaries({}, optional={"instances": JSON, "inputs": JSON, "signature_name": JSON, "other": JSON}))
def test_no_json_gets_through_that_is_not_the_models_input(content):
    try:
        found = parsed(content)
    except MalformedRequestError as error:
        assert 400 <= error.status < 500
    else:
        assert found.array.dtype == np.uint8
        assert found.array.shape[1:] == (2, 3)


@given(st.binary(max_size=200))
def test_no_bytes_make_it_crash(body):
    with pytest.raises(MalformedRequestError):
        parse_body(body, BYTES, 10)
