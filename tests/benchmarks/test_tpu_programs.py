"""The rebuilt programs have the parameters that the published models have."""

from math import prod

import jax
import pytest
from benchmarks.tpu_model.programs import adamw_update, bert, decoder_fsdp, gpt_einsum, llama_fsdp, resnet50, vit


def count(shapes) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def stacked(layer: dict, layers: int) -> int:
    return layers * sum(prod(weight.dims) for weight in layer.values())


@pytest.mark.parametrize(
    ("found", "published"),
    [
        (lambda: count(resnet50.state_shapes()[0]), 25_557_032),  # Keras and torchvision: ResNet-50 without statistics
        (lambda: count(vit.weight_shapes()), 86_567_656 - 768),  # timm's deit_base_patch16_224; here no class position
        (lambda: count(gpt_einsum.weight_shapes()), pytest.approx(268e6, rel=2e-3)),
        (lambda: count(adamw_update.weights()), pytest.approx(163.6e6, rel=3e-4)),
    ],
)
def test_parameters_are_those_of_the_published_model(found, published):
    assert found() == published


def test_bert_base_has_its_layers_and_a_vocabulary_of_32000():
    encoder = 12 * (4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768)
    ends = (32_000 + 2 + 512 + 2) * 768 + 2 * (768 * 768 + 768) + 2 * 768 + 32_000 + 2 * 768 + 2
    assert count(bert.weight_shapes()) == encoder + ends


def test_maxtext_s_decoder_gives_the_flops_it_logged():
    weights = stacked(decoder_fsdp.LAYER, 16) + sum(prod(weight.dims) for weight in decoder_fsdp.ENDS.values())
    assert 6 * weights * 16 * 1024 / 2.167e12 == pytest.approx(36.722, rel=1e-3)


def test_llama_3_1_has_8_03_billion_parameters():
    ends = 2 * 128_256 * 4096 + 4096
    assert stacked(llama_fsdp.LAYER, 32) + ends == 8_030_261_248
