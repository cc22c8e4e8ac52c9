"""A server: what fits beside its weights, and how an iteration's time follows its work."""

from dataclasses import replace

import pytest

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.serving.server import CLASSES, Server, speed_up
from whichdevice.models.served import WEIGHT_FORMATS, served_model

ROWS = hardware_rows()
LLAMA = served_model("meta-llama/Llama-3.1-8B")


def server(device: str, count: int = 1, weights: str = "fp8", model: str = "meta-llama/Llama-3.1-8B") -> Server:
    """Return a server of vLLM, or of llama.cpp in its formats."""
    kept = WEIGHT_FORMATS[weights]
    return Server(served_model(model), ROWS[device], count, kept, engine="llama.cpp" if kept.gguf else "vllm")


def test_memory_is_weights_workspace_and_cache() -> None:
    """The parts of one device add up to what the engine takes; two devices hold half of the weights each."""
    one, two = server("L40S"), server("L40S", 2)
    assert sum(one.memory().values()) == pytest.approx(one.usable)
    assert two.weights_bytes == one.weights_bytes / 2
    assert one.usable < ROWS["L40S"].mem_bytes  # type: ignore[operator]


@pytest.mark.parametrize(
    ("model", "published"),
    [("deepseek-ai/DeepSeek-V3", 70.272e3), ("Qwen/Qwen2.5-72B", 327.68e3), ("meta-llama/Llama-3.1-405B", 516.096e3)],
)
def test_a_token_takes_the_cache_that_is_published(model: str, published: float) -> None:
    """In 16 bits, by the table of DeepSeek's paper on its hardware."""
    assert served_model(model).cache_bytes_per_token() == pytest.approx(published, rel=0.01)


def test_deepseek_fits_on_eight_h200() -> None:
    """671 billion weights in FP8 take 84 GB of each; its latent cache is the same on all eight."""
    found = server("H200 SXM", 8, "fp8", "deepseek-ai/DeepSeek-V3")
    assert found.weights_bytes == pytest.approx(671e9 / 8, rel=0.03)
    assert found.max_requests(2048) > 100
    assert found.cache_of(1000) == server("H200 SXM", 4, "fp8", "deepseek-ai/DeepSeek-V3").cache_of(1000)


def test_more_requests_fit_with_a_smaller_cache() -> None:
    """8 bits a value let twice as many requests in; longer ones let fewer in."""
    wide, narrow = server("L40S"), replace(server("L40S"), cache_bits=8)
    assert narrow.max_requests(4000) == pytest.approx(2 * wide.max_requests(4000), abs=1)
    assert wide.max_requests(8000) == pytest.approx(wide.max_requests(4000) / 2, abs=1)


def test_a_token_takes_at_least_the_reading_of_the_weights() -> None:
    """No chip reads faster than its memory; a batch shares the reading."""
    for device in ("L4", "L40S", "RTX 4090", "A100 SXM 80GB", "H100 SXM", "B200 SXM", "Apple M4 Max"):
        found = server(device, weights="q4_k_m" if device.startswith("Apple") else "fp8")
        reading = LLAMA.read_bytes(found.weights) / (ROWS[device].mem_bw_gbs * 1e9)  # type: ignore[operator]
        alone = float(found.seconds(1, 1000))
        assert alone > reading
        assert float(found.seconds(16, 16_000)) < 4 * alone


def test_seconds_grow_with_each_part_of_the_work() -> None:
    """More requests, longer contexts and prompts take longer, two GPUs with links of their own less."""
    one, two = server("H100 SXM"), server("H100 SXM", 2)
    assert one.seconds(8, 8000) < one.seconds(16, 16_000) < one.seconds(16, 64_000)
    assert one.seconds(8, 8000) < one.seconds(8, 8000, 2048, 2048**2 / 2)
    assert two.seconds(8, 8000) < one.seconds(8, 8000)


def test_without_links_of_their_own_gpus_share_slowly() -> None:
    """Eight L40S exchange over PCIe through the host: a prompt is read more slowly than on two."""
    two, eight = server("L40S", 2), server("L40S", 8)
    assert float(eight.seconds(0, 0, 2048, 2048**2 / 2)) > float(two.seconds(0, 0, 2048, 2048**2 / 2))
    assert float(eight.work(1, 1000)["PCIe bytes"]) > 0


def test_llama_cpp_reads_layers_one_after_the_other() -> None:
    """Two cards hold twice as much, and are not faster for one user."""
    one, two = server("RTX 4090", 1, "q4_k_m"), server("RTX 4090", 2, "q4_k_m")
    assert two.seconds(1, 1000) == pytest.approx(float(one.seconds(1, 1000)))
    assert two.max_context > one.max_context


def test_products_are_faster_where_the_chip_has_the_format() -> None:
    """FP8 since Ada and Hopper, FP4 on Blackwell; else 16 bits."""
    fp8, fp4 = WEIGHT_FORMATS["fp8"], WEIGHT_FORMATS["nvfp4"]
    assert speed_up(fp8, ROWS["L40S"]) == ("fp8", 2)
    assert speed_up(fp8, ROWS["A100 SXM 80GB"]) == ("half", 1)
    assert speed_up(fp4, ROWS["B200 SXM"]) == ("fp4", 4)
    assert speed_up(WEIGHT_FORMATS["awq"], ROWS["B200 SXM"]) == ("half", 1)


def test_every_class_of_work_has_a_factor() -> None:
    """All engines know the factor of each class, on chips of every kind."""
    for device in ("T4", "MI300X", "Apple M4 Max", "TPU v6e", "EPYC 7763"):
        for engine in ("vllm", "llama.cpp"):
            factors = Server(LLAMA, ROWS[device], engine=engine).factors
            assert set(factors) == set(CLASSES)
            assert all(factor > 0 for factor in factors.values())


def test_tpus_have_factors_of_their_own() -> None:
    """They are fitted to servers of TPUs; a machine of eight is faster than one chip."""
    one, eight = (Server(LLAMA, ROWS["TPU v6e"], count, WEIGHT_FORMATS["bf16"]) for count in (1, 8))
    assert one.fitted is not server("H100 SXM").fitted
    assert 0.005 < float(one.seconds(1, 1000)) < 0.03
    assert eight.seconds(1, 1000) < one.seconds(1, 1000)
