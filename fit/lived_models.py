"""Models of fit/data/lived.csv that are no library's by name, as small as a trace needs them.

`lived_model(name)` returns what makes a module, its inputs and a loss, for a batch and a size of an example. timm's,
Transformers' and Diffusers' models come from those packages without weights. Losses that match boxes or sample rays are
the ones of their papers, without what runs on the host.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Batch = Callable[[int], Any]


@dataclass(frozen=True)
class Lived:
    """A module, its batch of n examples, and its loss."""

    build: Callable[[], nn.Module]
    batch: Batch
    loss: Callable[[Any, Any], Any]


def lived_model(name: str, size: tuple[int, ...]) -> Lived:
    """Return the model of a row, of examples of `size`; raises KeyError where it is not known."""
    library, _, model = name.partition(":")
    if library == "timm":
        return _classifier(lambda: _timm(model, size), size)
    if library == "hf":
        return TEXTS[model](size)
    base, *numbers = model.split("-")
    return OWN[base](size, *numbers)


def _timm(name: str, size: tuple[int, ...] = (), **options: Any) -> Any:
    import timm

    sized = {"img_size": size[0]} if re.match("vit|deit|swin", name) and "dynamic_img_size" not in options else {}
    return timm.create_model(name, **sized, **options)


def _config(name: str, **fields: Any) -> Any:
    """Return a configuration of Transformers, whose attention is written out where nothing else is said."""
    import transformers

    return getattr(transformers, f"{name}Config")(**{"attn_implementation": "eager", **fields})


def images(n: int, size: tuple[int, ...], channels: int = 3) -> Tensor:
    """Return images of [n, channels, height, width]."""
    return torch.zeros(n, channels, size[0], size[-1])


def labels(*shape: int) -> Tensor:
    """Return classes or words."""
    return torch.zeros(*shape, dtype=torch.long)


def _classifier(build: Callable[[], nn.Module], size: tuple[int, ...], channels: int = 3) -> Lived:
    return Lived(
        build,
        lambda n: (images(n, size, channels), labels(n)),
        lambda module, batch: functional.cross_entropy(module(batch[0]), batch[1]),
    )


class Preact(nn.Module):
    """A residual network for small images, of basic blocks; a wide one with activations first."""

    class Block(nn.Module):
        """Two convolutions."""

        def __init__(self, before: int, after: int, stride: int, first: bool) -> None:
            super().__init__()
            self.first = first
            self.norms = nn.ModuleList([nn.BatchNorm2d(before if first else after), nn.BatchNorm2d(after)])
            self.one = nn.Conv2d(before, after, 3, stride, 1, bias=False)
            self.two = nn.Conv2d(after, after, 3, 1, 1, bias=False)
            same = before == after and stride == 1
            self.skip = nn.Identity() if same else nn.Conv2d(before, after, 1, stride, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            if self.first:
                y = self.one(functional.relu(self.norms[0](x)))
                return self.two(functional.relu(self.norms[1](y))) + self.skip(x)
            y = functional.relu(self.norms[0](self.one(x)))
            return functional.relu(self.norms[1](self.two(y)) + self.skip(x))

    def __init__(self, depth: int, width: int, channels: int, first: bool = True) -> None:
        super().__init__()
        blocks = (depth - 4) // 6 if depth == 28 else (depth - 2) // 6
        parts: list[nn.Module] = [nn.Conv2d(channels, 16, 3, 1, 1, bias=False)]
        before = 16
        for stage, after in enumerate((16 * width, 32 * width, 64 * width)):
            for number in range(blocks):
                parts.append(Preact.Block(before, after, 2 if stage and not number else 1, first))
                before = after
        self.body = nn.Sequential(*parts, nn.BatchNorm2d(before), nn.ReLU())
        self.head = nn.Linear(before, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of ten classes."""
        return self.head(self.body(x).mean((2, 3)))


def _preact(size: tuple[int, ...], depth: str, width: str, first: bool = True) -> Lived:
    channels = 1 if size[0] == 28 else 3
    return _classifier(lambda: Preact(int(depth), int(width), channels, first), size, channels)


def _resnet9(size: tuple[int, ...]) -> Lived:
    def conv(before: int, after: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(before, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU())

    class Plus(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return x + super().forward(x)

    def build() -> nn.Module:
        return nn.Sequential(
            conv(3, 64), conv(64, 128), nn.MaxPool2d(2), Plus(conv(128, 128), conv(128, 128)), conv(128, 256),
            nn.MaxPool2d(2), conv(256, 512), nn.MaxPool2d(2), Plus(conv(512, 512), conv(512, 512)), nn.MaxPool2d(4),
            nn.Flatten(), nn.Linear(512, 10),
        )  # fmt: skip

    return _classifier(build, size)


def _alexnet(size: tuple[int, ...]) -> Lived:
    def build() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, 96, 11, 4, 2), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2),
            nn.Conv2d(96, 256, 5, padding=2, groups=2), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2),
            nn.Conv2d(256, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 384, 3, padding=1, groups=2), nn.ReLU(),
            nn.Conv2d(384, 256, 3, padding=1, groups=2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Flatten(),
            nn.Linear(9216, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(),
            nn.Linear(4096, 1000),
        )  # fmt: skip

    return _classifier(build, size)


# Texts


def _bert(heads: str, **fields: Any) -> Callable[[tuple[int, ...]], Lived]:
    """An encoder with a head of Transformers, on sequences of the row's length."""

    def made(size: tuple[int, ...]) -> Lived:
        import transformers

        length = size[0]

        def build() -> Any:
            return getattr(transformers, f"BertFor{heads}")(_config("Bert", **fields))

        def loss(module: Any, batch: Any) -> Any:
            words, of_each = batch
            given: dict[str, Any] = {"attention_mask": torch.ones_like(words)}
            if heads == "QuestionAnswering":
                return module(words, start_positions=of_each, end_positions=of_each, **given).loss
            return module(words, labels=words if heads == "MaskedLM" else of_each, **given).loss

        return Lived(build, lambda n: (labels(n, length), labels(n)), loss)

    return made


LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
CASED = {"vocab_size": 28996}


def _gpt2(size: tuple[int, ...], plain: bool = False, **fields: Any) -> Lived:
    import transformers

    def build() -> Any:
        way = "eager" if plain else "sdpa"
        config = _config("GPT2", vocab_size=50304, n_positions=size[0], attn_implementation=way, **fields)
        config.use_cache = False
        return transformers.GPT2LMHeadModel(config)

    return Lived(build, lambda n: labels(n, size[0]), lambda module, words: module(words, labels=words).loss)


def _tinyllama(size: tuple[int, ...]) -> Lived:
    import transformers

    config = _config(
        "Llama", hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
        num_key_value_heads=4, attn_implementation="sdpa", use_cache=False,
    )  # fmt: skip
    return Lived(
        lambda: transformers.LlamaForCausalLM(config),
        lambda n: labels(n, size[0]),
        lambda module, words: module(words, labels=words).loss,
    )


TEXTS: Mapping[str, Callable[[tuple[int, ...]], Lived]] = {
    "bert-base-cased": _bert("SequenceClassification", **CASED),
    "bert-large-cased": _bert("SequenceClassification", **CASED, **LARGE),
    "bert-base-multilingual": _bert("SequenceClassification", vocab_size=119547),
    "bert-base-squad": _bert("QuestionAnswering"),
    "bert-large-squad": _bert("QuestionAnswering", **LARGE),
    "bert-base-mlm": _bert("MaskedLM"),
    "roberta-base-mlm": _bert("MaskedLM", vocab_size=50265, max_position_embeddings=514),
    "gpt2": _gpt2,
    "tinyllama": _tinyllama,
}


def _electra(size: tuple[int, ...]) -> Lived:
    import transformers

    def config(hidden: int, heads: int) -> Any:
        sizes = {"hidden_size": hidden, "num_attention_heads": heads, "intermediate_size": 4 * hidden}
        return _config("Electra", embedding_size=128, **sizes)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator = transformers.ElectraForMaskedLM(config(64, 1))
            self.discriminator = transformers.ElectraForPreTraining(config(256, 4))

        def forward(self, words: Tensor) -> Tensor:
            made = self.generator(words, labels=words)
            taken = made.logits.detach().argmax(-1)
            return made.loss + 50 * self.discriminator(taken, labels=words).loss

    return Lived(Both, lambda n: labels(n, size[0]), lambda module, words: module(words))


def _transformer(size: tuple[int, ...], width: int = 512, heads: int = 8) -> Lived:
    class Translator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(37000, width)
            self.body = nn.Transformer(width, heads, 6, 6, 4 * width, batch_first=True)

        def forward(self, words: Tensor) -> Tensor:
            given = self.words(words)
            mask = torch.triu(torch.ones(size[0], size[0], dtype=torch.bool), 1)
            return self.body(given, given, tgt_mask=mask, tgt_is_causal=True) @ self.words.weight.T

    def loss(module: Any, words: Tensor) -> Tensor:
        return functional.cross_entropy(module(words).flatten(0, 1), words.flatten(), label_smoothing=0.1)

    return Lived(Translator, lambda n: labels(n, size[0]), loss)


# Self-supervised


class Averaged(nn.Module):
    """A module and one that follows it as a moving average, updated in the step."""

    def __init__(self, build: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.student, self.teacher = build(), build()
        self.teacher.requires_grad_(False)

    def follow(self) -> None:
        """Move the teacher."""
        with torch.no_grad():
            for average, weight in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                average.mul_(0.99).add_(weight, alpha=0.01)


def _moco(size: tuple[int, ...]) -> Lived:
    class Moco(Averaged):
        def __init__(self) -> None:
            super().__init__(lambda: _timm("resnet50", num_classes=128))
            self.register_buffer("queue", torch.zeros(128, 65536))

        def forward(self, x: Tensor) -> Tensor:
            query = functional.normalize(self.student(x), dim=1)
            self.follow()
            with torch.no_grad():
                key = functional.normalize(self.teacher(x), dim=1)
            scores = torch.cat([(query * key).sum(1, keepdim=True), query @ self.queue], 1) / 0.07
            return functional.cross_entropy(scores, labels(len(x)))

    return Lived(Moco, lambda n: images(n, size), lambda module, x: module(x))


def _mlp(*widths: int, norm: bool = True) -> nn.Module:
    parts: list[nn.Module] = []
    for before, after in pairwise(widths[:-1]):
        parts += [nn.Linear(before, after), *([nn.BatchNorm1d(after)] if norm else []), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(*widths[-2:]))


def _swav(size: tuple[int, ...]) -> Lived:
    class Swav(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = _timm("resnet50", num_classes=0)
            self.head, self.prototypes = _mlp(2048, 2048, 128), nn.Linear(128, 3000, bias=False)

        def forward(self, crops: list[Tensor]) -> Tensor:
            features = self.head(torch.cat([self.body(crop) for crop in crops]))
            scores = self.prototypes(functional.normalize(features, dim=1))
            return -(scores.detach().softmax(1) * (scores / 0.1).log_softmax(1)).sum(1).mean()

    return Lived(Swav, lambda n: [images(2 * n, size), images(6 * n, (96,))], lambda module, crops: module(crops))


def _dino(size: tuple[int, ...]) -> Lived:
    def build() -> nn.Module:
        body = _timm("vit_small_patch16_224", num_classes=0, dynamic_img_size=True)
        return nn.Sequential(body, _mlp(384, 2048, 2048, 256, norm=False), nn.Linear(256, 65536, bias=False))

    class Dino(Averaged):
        def __init__(self) -> None:
            super().__init__(build)

        def forward(self, crops: list[Tensor]) -> Tensor:
            outputs = [self.student(crop) for crop in crops]
            with torch.no_grad():
                target = (self.teacher(crops[0]) / 0.04).softmax(-1)
            total = torch.zeros(())
            for scores in (part for output in outputs for part in output.split(len(crops[0]) // 2)):
                total = total - (target[: len(scores)] * (scores / 0.1).log_softmax(-1)).sum(-1).mean()
            self.follow()
            return total

    return Lived(Dino, lambda n: [images(2 * n, size), images(8 * n, (96,))], lambda module, crops: module(crops))


def _barlow(size: tuple[int, ...]) -> Lived:
    class Barlow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(_timm("resnet50", num_classes=0), _mlp(2048, 8192, 8192, 8192))
            self.norm = nn.BatchNorm1d(8192, affine=False)

        def forward(self, x: Tensor) -> Tensor:
            correlation = self.norm(self.body(x)).T @ self.norm(self.body(x)) / len(x)
            return (correlation - 1).pow(2).mean()

    return Lived(Barlow, lambda n: images(n, size), lambda module, x: module(x))


def _mae(size: tuple[int, ...], **fields: Any) -> Lived:
    import transformers

    config = _config("ViTMAE", **fields, image_size=size[0])
    return Lived(
        lambda: transformers.ViTMAEForPreTraining(config), lambda n: images(n, size), lambda module, x: module(x).loss
    )


def _supcon(size: tuple[int, ...]) -> Lived:
    def build() -> nn.Module:
        body = _timm("resnet50", num_classes=0)  # for small images: no stride, no pooling at first
        body.conv1, body.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
        return nn.Sequential(body, _mlp(2048, 2048, 128, norm=False))

    def loss(module: Any, batch: Any) -> Tensor:
        crops, classes = batch
        features = functional.normalize(module(crops), dim=1)
        scores = (features @ features.T / 0.1).log_softmax(1)
        same = (classes[:, None] == classes).float()
        return -((scores * same).sum(1) / same.sum(1)).mean()

    return Lived(build, lambda n: (images(2 * n, size), labels(2 * n)), loss)


def _videomae(size: tuple[int, ...]) -> Lived:
    import transformers

    tokens = 8 * (size[0] // 16) ** 2
    seen = tokens // 10

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = transformers.VideoMAEForPreTraining(_config("VideoMAE", image_size=size[0]))

        def forward(self, videos: Tensor) -> Tensor:
            body, parts = self.parts.videomae, self.parts
            x = body.embeddings.patch_embeddings(videos)[:, :seen]
            x = parts.encoder_to_decoder(body.encoder(x).last_hidden_state)
            hidden = parts.mask_token.expand(len(x), tokens - seen, -1)
            return parts.decoder(torch.cat([x, hidden], 1), tokens - seen).logits.pow(2).mean()

    return Lived(Masked, lambda n: torch.zeros(n, 16, 3, size[0], size[0]), lambda module, videos: module(videos))


def _timesformer(size: tuple[int, ...]) -> Lived:
    import transformers

    config = _config("Timesformer", image_size=size[0], num_labels=400)
    return Lived(
        lambda: transformers.TimesformerForVideoClassification(config),
        lambda n: (torch.zeros(n, 8, 3, size[0], size[0]), labels(n)),
        lambda module, batch: module(batch[0], labels=batch[1]).loss,
    )


def _virtex(size: tuple[int, ...]) -> Lived:
    class Captions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.features = _timm("resnet50", num_classes=0, global_pool=""), nn.Linear(2048, 1024)
            self.words = nn.Embedding(10000, 1024)
            layers = [nn.TransformerDecoderLayer(1024, 16, 4096, batch_first=True) for _ in range(2)]
            self.ways = nn.ModuleList(layers)  # forward and backward

        def forward(self, x: Tensor, words: Tensor) -> Tensor:
            seen = self.features(self.body(x).flatten(2).transpose(1, 2))
            mask = torch.triu(torch.ones(30, 30, dtype=torch.bool), 1)
            total = torch.zeros(())
            for layer, read in zip(self.ways, (words, words.flip(1)), strict=True):
                scores = layer(self.words(read), seen, tgt_mask=mask) @ self.words.weight.T
                total = total + functional.cross_entropy(scores.flatten(0, 1), read.flatten())
            return total

    return Lived(Captions, lambda n: (images(n, size), labels(n, 30)), lambda module, batch: module(*batch))


def _clip(size: tuple[int, ...], patch: int = 32, wide: bool = False) -> Lived:
    import transformers

    seen: dict[str, Any] = {"patch_size": patch} | (LARGE if wide else {})
    text = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072} if wide else {}
    config = transformers.CLIPConfig(text_config=text, vision_config=seen, projection_dim=768 if wide else 512)

    def build() -> Any:
        module = transformers.CLIPModel(config)
        if wide:
            module.gradient_checkpointing_enable()
        return module

    def loss(module: Any, batch: Any) -> Tensor:
        scores = module(input_ids=batch[1], pixel_values=batch[0]).logits_per_image
        return functional.cross_entropy(scores, labels(len(scores))) + functional.cross_entropy(
            scores.T, labels(len(scores))
        )

    return Lived(build, lambda n: (images(n, size), labels(n, 77)), loss)


def _clip_resnet(size: tuple[int, ...]) -> Lived:
    import transformers

    class Clip(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen = _timm("resnet50_clip", num_classes=1024)
            self.text = transformers.CLIPTextModelWithProjection(transformers.CLIPTextConfig(projection_dim=1024))

        def forward(self, x: Tensor, words: Tensor) -> Tensor:
            scores = functional.normalize(self.seen(x), dim=1) @ functional.normalize(self.text(words)[0], dim=1).T
            return functional.cross_entropy(scores, labels(len(x))) + functional.cross_entropy(scores.T, labels(len(x)))

    return Lived(Clip, lambda n: (images(n, size), labels(n, 77)), lambda module, batch: module(*batch))


# Dense prediction


class Backbone(nn.Module):
    """Four levels of a ResNet of timm, its batch norms frozen, and the first levels."""

    def __init__(self, depth: str, frozen: int = 2, fixed: bool = True, **options: Any) -> None:
        super().__init__()
        levels = {"out_indices": (1, 2, 3, 4)} | options
        self.body, self.fixed = _timm(f"resnet{depth}", features_only=True, **levels), fixed
        for name, parameter in self.body.named_parameters():
            if frozen and re.match("conv1|bn1|" + "|".join(f"layer{number}" for number in range(1, frozen)), name):
                parameter.requires_grad_(False)
        if fixed:
            for part in self.body.modules():
                if isinstance(part, nn.BatchNorm2d):
                    part.requires_grad_(False)

    def train(self, mode: bool = True) -> "Backbone":
        """Keep the norms as they are."""
        return super().train(mode and not self.fixed)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Features of four levels."""
        return list(self.body(x))


class Pyramid(nn.Module):
    """Features of 256 channels at each level, from coarse to fine added up."""

    def __init__(self, depth: str, lowest: int) -> None:
        super().__init__()
        self.lowest = lowest
        self.body = Backbone(depth)
        self.inner = nn.ModuleList([nn.Conv2d(width, 256, 1) for width in (256, 512, 1024, 2048)[lowest:]])
        self.outer = nn.ModuleList([nn.Conv2d(256, 256, 3, 1, 1) for _ in self.inner])

    def forward(self, x: Tensor) -> list[Tensor]:
        """Features, fine first."""
        levels = [inner(level) for inner, level in zip(self.inner, self.body(x)[self.lowest :], strict=True)]
        for place in range(len(levels) - 2, -1, -1):
            levels[place] = levels[place] + functional.interpolate(levels[place + 1], size=levels[place].shape[2:])
        return [outer(level) for outer, level in zip(self.outer, levels, strict=True)]


def _tower(last: int) -> nn.Module:
    convs = [part for _ in range(4) for part in (nn.Conv2d(256, 256, 3, 1, 1), nn.ReLU())]
    return nn.Sequential(*convs, nn.Conv2d(256, last, 3, 1, 1))


def _retinanet(size: tuple[int, ...], depth: str) -> Lived:
    class Retina(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pyramid, self.classes, self.boxes = Pyramid(depth, 1), _tower(9 * 80), _tower(9 * 4)
            self.more = nn.ModuleList([nn.Conv2d(256, 256, 3, 2, 1) for _ in range(2)])

        def forward(self, x: Tensor) -> Tensor:
            levels = self.pyramid(x)
            for conv in self.more:
                levels.append(conv(levels[-1]))
            scores = torch.cat([self.classes(level).flatten(1) for level in levels], 1)
            boxes = torch.cat([self.boxes(level).flatten(1) for level in levels], 1)
            chance = scores.sigmoid()
            focal = functional.binary_cross_entropy_with_logits(scores, torch.zeros_like(scores), reduction="none")
            return (focal * chance.pow(2) * 0.25).sum() + functional.smooth_l1_loss(boxes, torch.zeros_like(boxes))

    return Lived(Retina, lambda n: images(n, size), lambda module, x: module(x))


BOXES, MASKS = 512, 128  # of an image, that the second stage learns from


def _faster(size: tuple[int, ...], depth: str, masks: bool = False) -> Lived:
    class Faster(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pyramid, self.proposal = Pyramid(depth, 0), nn.Conv2d(256, 256, 3, 1, 1)
            self.objects, self.deltas = nn.Conv2d(256, 3, 1), nn.Conv2d(256, 12, 1)
            self.head = nn.Sequential(nn.Linear(256 * 49, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU())
            self.classes, self.boxes = nn.Linear(1024, 81), nn.Linear(1024, 320)
            convs = [part for _ in range(4) for part in (nn.Conv2d(256, 256, 3, 1, 1), nn.ReLU())]
            last = [nn.ConvTranspose2d(256, 256, 2, 2), nn.ReLU(), nn.Conv2d(256, 80, 1)]
            self.masks = nn.Sequential(*convs, *last) if masks else None

        def regions(self, level: Tensor, count: int, side: int) -> Tensor:
            grid = torch.zeros(len(level), count * side, side, 2)
            sampled = functional.grid_sample(level, grid, align_corners=False)
            return sampled.unflatten(2, (count, side)).transpose(1, 2).flatten(0, 1)

        def forward(self, x: Tensor) -> Tensor:
            levels = self.pyramid(x)
            levels.append(functional.max_pool2d(levels[-1], 1, 2))
            total = torch.zeros(())
            for level in levels:
                hidden = functional.relu(self.proposal(level))
                objects = self.objects(hidden)
                total = total + functional.binary_cross_entropy_with_logits(objects, torch.zeros_like(objects))
                total = total + self.deltas(hidden).abs().mean()
            taken = self.head(self.regions(levels[1], BOXES, 7).flatten(1))
            total = total + functional.cross_entropy(self.classes(taken), labels(len(taken)))
            total = total + self.boxes(taken).abs().mean()
            if self.masks is not None:
                drawn = self.masks(self.regions(levels[1], MASKS, 14))
                total = total + functional.binary_cross_entropy_with_logits(drawn, torch.zeros_like(drawn))
            return total

    return Lived(Faster, lambda n: images(n, size), lambda module, x: module(x))


def _pspnet(size: tuple[int, ...], depth: str, classes: str) -> Lived:
    class Psp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = Backbone(depth, 0, fixed=False, output_stride=8)
            self.pooled = nn.ModuleList([self.conv(2048, 512, 1) for _ in range(4)])
            self.last = nn.Sequential(self.conv(4096, 512, 3), nn.Dropout2d(), nn.Conv2d(512, int(classes), 1))
            self.aside = nn.Sequential(self.conv(1024, 256, 3), nn.Dropout2d(), nn.Conv2d(256, int(classes), 1))

        @staticmethod
        def conv(before: int, after: int, width: int) -> nn.Module:
            conv = nn.Conv2d(before, after, width, padding=width // 2, bias=False)
            return nn.Sequential(conv, nn.BatchNorm2d(after), nn.ReLU())

        def forward(self, x: Tensor) -> Tensor:
            *_, aside, features = self.body(x)
            parts = [features]
            for bins, conv in zip((1, 2, 3, 6), self.pooled, strict=True):
                pooled = conv(functional.adaptive_avg_pool2d(features, bins))
                parts.append(functional.interpolate(pooled, features.shape[2:], mode="bilinear"))
            total = torch.zeros(())
            for scores, weight in ((self.last(torch.cat(parts, 1)), 1.0), (self.aside(aside), 0.4)):
                whole = functional.interpolate(scores, x.shape[2:], mode="bilinear")
                total = total + weight * functional.cross_entropy(whole, labels(len(x), *x.shape[2:]))
            return total

    return Lived(Psp, lambda n: images(n, size), lambda module, x: module(x))


def _segformer(size: tuple[int, ...], kind: str, classes: str) -> Lived:
    import transformers

    widths = {"b0": [32, 64, 160, 256], "b1": [64, 128, 320, 512]}[kind]
    config = transformers.SegformerConfig(hidden_sizes=widths, num_labels=int(classes))
    return Lived(
        lambda: transformers.SegformerForSemanticSegmentation(config),
        lambda n: (images(n, size), labels(n, *size, *size)),
        lambda module, batch: module(batch[0], labels=batch[1]).loss,
    )


def _detr(size: tuple[int, ...], dilation: bool = False) -> Lived:
    class Detr(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = Backbone("50", 2, output_stride=16 if dilation else 32)
            self.thin = nn.Conv2d(2048, 256, 1)
            self.transformer = nn.Transformer(256, 8, 6, 6, 2048, batch_first=True)
            self.queries = nn.Parameter(torch.zeros(100, 256))
            self.classes, self.boxes = nn.Linear(256, 92), _mlp(256, 256, 256, 4, norm=False)

        def forward(self, x: Tensor) -> Tensor:
            features = self.thin(self.body(x)[-1]).flatten(2).transpose(1, 2)
            memory = self.transformer.encoder(features)
            rows, total = self.queries.expand(len(x), -1, -1), torch.zeros(())
            for layer in self.transformer.decoder.layers:
                rows = layer(rows, memory)
                out = self.transformer.decoder.norm(rows)
                total = total + functional.cross_entropy(self.classes(out).flatten(0, 1), labels(100 * len(x)))
                total = total + self.boxes(out).sigmoid().abs().mean()
            return total

    return Lived(Detr, lambda n: images(n, size), lambda module, x: module(x))


def _cosplace(size: tuple[int, ...], depth: str) -> Lived:
    class Place(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = Backbone(depth, 3, fixed=False)
            self.head = nn.Linear(512 if depth == "18" else 2048, 512)
            self.classes = nn.Parameter(torch.zeros(5000, 512))

        def forward(self, x: Tensor) -> Tensor:
            pooled = self.body(x)[-1].clamp(min=1e-6).pow(3).mean((2, 3)).pow(1 / 3)
            features = functional.normalize(self.head(pooled), dim=1)
            return functional.cross_entropy(features @ functional.normalize(self.classes, dim=1).T, labels(len(x)))

    return Lived(Place, lambda n: images(n, size), lambda module, x: module(x))


# YOLOv5: multiples of depth and width by size.
YOLO = {"n": (0.33, 0.25), "s": (0.33, 0.5), "m": (0.67, 0.75), "l": (1.0, 1.0), "x": (1.33, 1.25)}


class Conv(nn.Sequential):
    """A convolution with its norm and activation."""

    def __init__(self, before: int, after: int, width: int = 1, stride: int = 1) -> None:
        conv = nn.Conv2d(before, after, width, stride, width // 2 if width < 6 else 2, bias=False)
        super().__init__(conv, nn.BatchNorm2d(after), nn.SiLU())


class C3(nn.Module):
    """Bottlenecks beside a short cut."""

    def __init__(self, before: int, after: int, count: int, adds: bool = True) -> None:
        super().__init__()
        half = after // 2
        self.one, self.two, self.last = Conv(before, half), Conv(before, half), Conv(after, after)
        self.blocks = nn.ModuleList([nn.Sequential(Conv(half, half), Conv(half, half, 3)) for _ in range(count)])
        self.adds = adds

    def forward(self, x: Tensor) -> Tensor:
        """Return it with as many channels as `after`."""
        y = self.one(x)
        for block in self.blocks:
            y = y + block(y) if self.adds else block(y)
        return self.last(torch.cat([y, self.two(x)], 1))


class Yolo(nn.Module):
    """YOLOv5 of a size, with a loss on all cells and on 3 × 100 chosen ones an image."""

    def __init__(self, size: str) -> None:
        super().__init__()
        depth, width = YOLO[size]
        a, b, c, d, e = (int(width * channels) for channels in (64, 128, 256, 512, 1024))
        three, six, nine = (max(round(blocks * depth), 1) for blocks in (3, 6, 9))
        self.first = nn.Sequential(Conv(3, a, 6, 2), Conv(a, b, 3, 2), C3(b, b, three), Conv(b, c, 3, 2), C3(c, c, six))
        self.second = nn.Sequential(Conv(c, d, 3, 2), C3(d, d, nine))
        self.third = nn.Sequential(Conv(d, e, 3, 2), C3(e, e, three))
        self.pool = nn.ModuleList([Conv(e, e // 2), Conv(2 * e, e)])
        self.up = nn.ModuleList([Conv(e, d), C3(e, d, three, False), Conv(d, c), C3(d, c, three, False)])
        self.down = nn.ModuleList([Conv(c, c, 3, 2), C3(d, d, three, False), Conv(d, d, 3, 2), C3(e, e, three, False)])
        self.heads = nn.ModuleList([nn.Conv2d(channels, 255, 1) for channels in (c, d, e)])

    def forward(self, x: Tensor) -> Tensor:
        """Return the loss."""
        fine = self.first(x)
        middle = self.second(fine)
        coarse = self.pool[0](self.third(middle))
        pools = [coarse]
        for _ in range(3):
            pools.append(functional.max_pool2d(pools[-1], 5, 1, 2))
        top = self.up[0](self.pool[1](torch.cat(pools, 1)))
        between = self.up[2](self.up[1](torch.cat([functional.interpolate(top, scale_factor=2.0), middle], 1)))
        low = self.up[3](torch.cat([functional.interpolate(between, scale_factor=2.0), fine], 1))
        second = self.down[1](torch.cat([self.down[0](low), between], 1))
        third = self.down[3](torch.cat([self.down[2](second), top], 1))
        total = torch.zeros(())
        for head, level in zip(self.heads, (low, second, third), strict=True):
            predicted = head(level).unflatten(1, (3, 85)).permute(0, 1, 3, 4, 2).flatten(0, 3)
            chosen = predicted[labels(100 * len(x))]
            wanted = torch.zeros_like(predicted[:, 4])
            total = total + functional.binary_cross_entropy_with_logits(predicted[:, 4], wanted)
            total = total + functional.binary_cross_entropy_with_logits(chosen[:, 5:], torch.zeros_like(chosen[:, 5:]))
            corner, side = chosen[:, :2].sigmoid() * 2 - 0.5, (chosen[:, 2:4].sigmoid() * 2) ** 2
            total = total + (1 - (corner * side).sum(1) / (corner + side).sum(1)).mean()
        return total


def _yolo(size: tuple[int, ...], kind: str) -> Lived:
    return Lived(lambda: Yolo(kind), lambda n: images(n, size), lambda module, x: module(x))


# Radiance fields


class Radiance(nn.Module):
    """Eight layers of 256 for a point, a view for its colour."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.Linear(63 if not place else 319 if place == 5 else 256, 256) for place in range(8)]
        )
        self.density, self.feature = nn.Linear(256, 1), nn.Linear(256, 256)
        self.view, self.colour = nn.Linear(283, 128), nn.Linear(128, 3)

    def forward(self, points: Tensor, views: Tensor) -> tuple[Tensor, Tensor]:
        """Colours and densities of points [rays, points, 3]."""
        waves = [2.0**power for power in range(10)]
        given = torch.cat([points, *(part(points * wave) for wave in waves for part in (torch.sin, torch.cos))], -1)
        seen = torch.cat([views, *(part(views * wave) for wave in waves[:4] for part in (torch.sin, torch.cos))], -1)
        x = given
        for place, layer in enumerate(self.layers):
            x = functional.relu(layer(torch.cat([given, x], -1) if place == 5 else x))
        seen = seen[:, None].expand(-1, points.shape[1], -1)
        y = functional.relu(self.view(torch.cat([self.feature(x), seen], -1)))
        return self.colour(y), self.density(x)


def _nerf(size: tuple[int, ...], fine: str) -> Lived:
    class Rays(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.coarse, self.fine = Radiance(), Radiance() if int(fine) else None

        @staticmethod
        def rendered(colours: Tensor, densities: Tensor, depths: Tensor) -> tuple[Tensor, Tensor]:
            distances = depths[:, 1:] - depths[:, :-1]
            distances = torch.cat([distances, torch.full_like(distances[:, :1], 1e10)], 1)
            alpha = 1 - torch.exp(-functional.relu(densities[..., 0]) * distances)
            passed = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[:, :-1]
            weights = alpha * passed
            return (weights[..., None] * colours.sigmoid()).sum(1), weights

        def forward(self, origins: Tensor, views: Tensor) -> Tensor:
            depths = torch.linspace(2, 6, size[0]) + torch.rand(len(origins), size[0])
            seen, densities = self.coarse(origins[:, None] + views[:, None] * depths[..., None], views)
            colours, weights = self.rendered(seen, densities, depths)
            total = (colours - origins).pow(2).mean()
            if self.fine is None:
                return total
            sums = torch.cumsum((weights + 1e-5) / (weights + 1e-5).sum(1, keepdim=True), 1).detach()
            places = torch.searchsorted(sums, torch.rand(len(origins), int(fine) - size[0])).clamp(max=size[0] - 1)
            deeper, _ = torch.sort(torch.cat([depths, torch.gather(depths, 1, places)], 1), 1)
            seen, densities = self.fine(origins[:, None] + views[:, None] * deeper[..., None], views)
            return total + (self.rendered(seen, densities, deeper)[0] - origins).pow(2).mean()

    return Lived(Rays, lambda n: (torch.zeros(n, 3), torch.zeros(n, 3)), lambda module, rays: module(*rays))


# Diffusion


class Moving(nn.Module):
    """A module whose moving average is kept, updated in the step."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        for number, weight in enumerate(module.parameters()):
            self.register_buffer(f"average{number}", torch.zeros_like(weight))

    def update(self) -> None:
        """Move the average."""
        with torch.no_grad():
            for number, weight in enumerate(self.module.parameters()):
                getattr(self, f"average{number}").mul_(0.999).add_(weight, alpha=0.001)


def _unet(widths: tuple[int, ...], layers: int, attends: tuple[int, ...]) -> Callable[..., Lived]:
    def made(size: tuple[int, ...], *_: str) -> Lived:
        from diffusers import UNet2DModel

        def build() -> nn.Module:
            kinds = ["AttnDownBlock2D" if place in attends else "DownBlock2D" for place in range(len(widths))]
            ups = [kind.replace("Down", "Up") for kind in reversed(kinds)]
            return Moving(
                UNet2DModel(
                    sample_size=size[0], block_out_channels=widths, layers_per_block=layers, down_block_types=kinds,
                    up_block_types=ups, attention_head_dim=None,
                )
            )  # fmt: skip

        def loss(module: Any, batch: Any) -> Tensor:
            x, times = batch
            noised = x + torch.randn_like(x)
            module.update()
            return functional.mse_loss(module.module(noised, times).sample, x)

        return Lived(build, lambda n: (images(n, size), labels(n)), loss)

    return made


def _dit(size: tuple[int, ...], encodes: bool = True, checkpoints: bool = True) -> Lived:
    from diffusers import AutoencoderKL, DiTTransformer2DModel

    class Both(Moving):
        def __init__(self) -> None:
            body = DiTTransformer2DModel(
                num_attention_heads=16, attention_head_dim=72, in_channels=4, out_channels=8, num_layers=28,
                sample_size=size[0], patch_size=2,
            )  # fmt: skip
            if checkpoints:
                body.enable_gradient_checkpointing()
            super().__init__(body)
            self.encoder = _encoder(AutoencoderKL) if encodes else None

    def loss(module: Any, batch: Any) -> Tensor:
        x, times = batch
        if module.encoder is not None:
            with torch.no_grad():
                x = module.encoder(x).latent_dist.sample()
        module.update()
        return module.module(x, timestep=times, class_labels=times).sample.pow(2).mean()

    shape = (8 * size[0],) if encodes else size
    return Lived(Both, lambda n: (images(n, shape, 3 if encodes else 4), labels(n)), loss)


def _encoder(kind: Any) -> Any:
    """Stable Diffusion's encoder of images, which is not trained."""
    whole = kind(
        down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(128, 256, 512, 512), layers_per_block=2,
    ).requires_grad_(False)  # fmt: skip

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.quant = whole.encoder, whole.quant_conv

        def forward(self, x: Tensor) -> Any:
            from diffusers.models.autoencoders.vae import DiagonalGaussianDistribution

            class Output:
                latent_dist = DiagonalGaussianDistribution(self.quant(self.encoder(x)))

            return Output

    return Encoder()


class Adapter(nn.Module):
    """A layer that is not trained, with a product of low rank beside it that is."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layer returns."""
        return self.layer(x) + self.up(self.down(x))


def adapted(module: nn.Module, rank: int, of: str) -> nn.Module:
    """Freeze a module, and put an adapter beside each of its linear layers whose name matches."""
    module.requires_grad_(False)
    for name, layer in list(module.named_modules()):
        if isinstance(layer, nn.Linear) and re.search(of, name):
            owner, _, last = name.rpartition(".")
            setattr(module.get_submodule(owner), last, Adapter(layer, rank))
    return module


def _stable_diffusion(size: tuple[int, ...], tunes: str) -> Lived:
    import transformers
    from diffusers import AutoencoderKL, UNet2DConditionModel

    class Tuned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = _encoder(AutoencoderKL)
            text = transformers.CLIPTextConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072)
            self.text = transformers.CLIPTextModel(text).requires_grad_(False)
            self.unet = UNet2DConditionModel(cross_attention_dim=768, attention_head_dim=8).requires_grad_(False)
            if tunes == "lora":
                adapted(self.unet, 4, r"attn\d\.to_")
            else:
                self.text.get_input_embeddings().requires_grad_(True)

        def forward(self, x: Tensor, words: Tensor) -> Tensor:
            with torch.no_grad():
                latents = self.encoder(x).latent_dist.sample()
            seen = self.text(words)[0]
            noise = self.unet(latents, labels(len(x)), encoder_hidden_states=seen).sample
            return functional.mse_loss(noise.float(), latents.float())

    return Lived(Tuned, lambda n: (images(n, size), labels(n, 77)), lambda module, batch: module(*batch))


def _sdxl(size: tuple[int, ...]) -> Lived:
    import transformers
    from diffusers import UNet2DConditionModel

    def text(width: int, layers: int, heads: int) -> nn.Module:
        config = transformers.CLIPTextConfig(
            hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width
        )
        return adapted(transformers.CLIPTextModel(config), 32, "proj|fc")

    class Tuned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.texts = nn.ModuleList([text(768, 12, 12), text(1280, 32, 20)])
            body = UNet2DConditionModel(
                block_out_channels=(320, 640, 1280), layers_per_block=2, transformer_layers_per_block=(1, 2, 10),
                attention_head_dim=(5, 10, 20), cross_attention_dim=2048, use_linear_projection=True,
                down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
                up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
                addition_embed_type="text_time", addition_time_embed_dim=256,
                projection_class_embeddings_input_dim=2816,
            )  # fmt: skip
            self.unet = adapted(body, 32, "attn|ff|proj")

        def forward(self, x: Tensor, words: Tensor) -> Tensor:
            seen = torch.cat([encoder(words)[0] for encoder in self.texts], -1)
            added = {"text_embeds": seen[:, 0, :1280], "time_ids": torch.zeros(len(x), 6)}
            noise = self.unet(x, labels(len(x)), encoder_hidden_states=seen, added_cond_kwargs=added).sample
            return functional.mse_loss(noise.float(), x.float())

    shape = (size[0] // 8,)
    return Lived(Tuned, lambda n: (images(n, shape, 4), labels(n, 77)), lambda module, batch: module(*batch))


# Image to image and sound: networks that learn against each other


def _generator(channels: int = 64) -> nn.Module:
    def conv(before: int, after: int, width: int, stride: int = 1) -> list[nn.Module]:
        return [nn.Conv2d(before, after, width, stride, 1 if stride > 1 else 0), nn.InstanceNorm2d(after), nn.ReLU()]

    class Block(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return x + super().forward(x)

    width = 4 * channels
    blocks = [
        Block(nn.ReflectionPad2d(1), *conv(width, width, 3), nn.ReflectionPad2d(1), *conv(width, width, 3)[:2])
        for _ in range(9)
    ]
    ups: list[nn.Module] = []
    for before in (width, width // 2):
        ups += [nn.ConvTranspose2d(before, before // 2, 3, 2, 1, 1), nn.InstanceNorm2d(before // 2), nn.ReLU()]
    first = [nn.ReflectionPad2d(3), *conv(3, channels, 7), *conv(channels, 2 * channels, 3, 2)]
    return nn.Sequential(
        *first, *conv(2 * channels, width, 3, 2), *blocks, *ups, nn.ReflectionPad2d(3), nn.Conv2d(channels, 3, 7)
    )


def _critic(channels: int, norm: Callable[[int], nn.Module]) -> nn.Module:
    parts: list[nn.Module] = [nn.Conv2d(channels, 64, 4, 2, 1), nn.LeakyReLU(0.2)]
    for before, stride in ((64, 2), (128, 2), (256, 1)):
        parts += [nn.Conv2d(before, 2 * before, 4, stride, 1), norm(2 * before), nn.LeakyReLU(0.2)]
    return nn.Sequential(*parts, nn.Conv2d(512, 1, 4, 1, 1))


def frozen(module: nn.Module, *inputs: Any) -> Any:
    """Call a module whose weights are not trained in this pass."""
    weights = {name: weight.detach() for name, weight in module.named_parameters()}
    return torch.func.functional_call(module, weights, inputs)


def _cyclegan(size: tuple[int, ...]) -> Lived:
    class Cycle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.makers = nn.ModuleList([_generator() for _ in range(2)])
            self.critics = nn.ModuleList([_critic(3, nn.InstanceNorm2d) for _ in range(2)])

        def forward(self, x: Tensor) -> Tensor:
            total = torch.zeros(())
            for place in range(2):
                maker, other, critic = self.makers[place], self.makers[1 - place], self.critics[place]
                made = maker(x)
                total = total + (frozen(critic, made) - 1).pow(2).mean()
                total = total + (other(made) - x).abs().mean() + (maker(x) - x).abs().mean()
                total = total + (critic(x) - 1).pow(2).mean() + critic(made.detach()).pow(2).mean()
            return total

    return Lived(Cycle, lambda n: images(n, size), lambda module, x: module(x))


class Unet256(nn.Module):
    """The generator of pix2pix for images of 256 × 256: eight levels down and up."""

    WIDTHS = (3, 64, 128, 256, 512, 512, 512, 512, 512)

    def __init__(self) -> None:
        super().__init__()
        pairs = list(pairwise(self.WIDTHS))
        self.down = nn.ModuleList([nn.Conv2d(before, after, 4, 2, 1) for before, after in pairs])
        ups = [
            (after if after == 512 and place == 7 else 2 * after, before) for place, (before, after) in enumerate(pairs)
        ]
        self.up = nn.ModuleList([nn.ConvTranspose2d(before, after, 4, 2, 1) for before, after in ups])
        self.norms = nn.ModuleList([nn.BatchNorm2d(before) for before, _ in pairs])
        self.others = nn.ModuleList([nn.BatchNorm2d(after) for _, after in pairs])

    def forward(self, x: Tensor) -> Tensor:
        """Images."""
        kept = []
        for place, conv in enumerate(self.down):
            x = conv(functional.leaky_relu(x, 0.2))
            x = self.others[place](x) if 0 < place < 7 else x
            kept.append(x)
        for place in range(7, -1, -1):
            x = x if place == 7 else torch.cat([x, kept[place]], 1)
            x = self.norms[place](self.up[place](functional.relu(x)))
        return x


def _pix2pix(size: tuple[int, ...]) -> Lived:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.maker, self.critic = Unet256(), _critic(6, nn.BatchNorm2d)

        def forward(self, x: Tensor) -> Tensor:
            made = self.maker(x)
            pairs = torch.cat([x, made], 1)
            scores = [self.critic(torch.cat([x, x], 1)), self.critic(pairs.detach()), frozen(self.critic, pairs)]
            return sum((score.mean() for score in scores), (made - x).abs().mean())

    return Lived(Both, lambda n: images(n, size), lambda module, x: module(x))


def _hifigan(size: tuple[int, ...]) -> Lived:
    import transformers

    def periods() -> nn.Module:
        widths = (1, 32, 128, 512, 1024)
        parts: list[nn.Module] = []
        for before, after in pairwise(widths):
            parts += [nn.Conv2d(before, after, (5, 1), (3, 1), (2, 0)), nn.LeakyReLU(0.1)]
        parts += [nn.Conv2d(1024, 1024, (5, 1), 1, (2, 0)), nn.LeakyReLU(0.1), nn.Conv2d(1024, 1, (3, 1), 1, (1, 0))]
        return nn.Sequential(*parts)

    def scales() -> nn.Module:
        shapes = [(1, 128, 15, 1, 1), (128, 128, 41, 2, 4), (128, 256, 41, 2, 16), (256, 512, 41, 4, 16),
                  (512, 1024, 41, 4, 16), (1024, 1024, 41, 1, 16), (1024, 1024, 5, 1, 1)]  # fmt: skip
        parts: list[nn.Module] = []
        for before, after, width, stride, groups in shapes:
            parts += [nn.Conv1d(before, after, width, stride, width // 2, groups=groups), nn.LeakyReLU(0.1)]
        return nn.Sequential(*parts, nn.Conv1d(1024, 1, 3, 1, 1))

    class Critics(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.periods = nn.ModuleList([periods() for _ in range(5)])
            self.scales = nn.ModuleList([scales() for _ in range(3)])

        def forward(self, x: Tensor) -> Tensor:
            total = torch.zeros(())
            for period, net in zip((2, 3, 5, 7, 11), self.periods, strict=True):
                whole = x[..., : x.shape[-1] // period * period].unflatten(-1, (-1, period))
                total = total + (net(whole) - 1).pow(2).mean()
            for number, net in enumerate(self.scales):
                x = functional.avg_pool1d(x, 4, 2, 2) if number else x
                total = total + (net(x) - 1).pow(2).mean()
            return total

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = transformers.SpeechT5HifiGanConfig(
                upsample_rates=[8, 8, 2, 2], upsample_kernel_sizes=[16, 16, 4, 4], normalize_before=False
            )
            self.maker, self.critics = transformers.SpeechT5HifiGan(config), Critics()

        def forward(self, mels: Tensor, sound: Tensor) -> Tensor:
            made = self.maker(mels)[:, None]
            taught = self.critics(sound) + self.critics(made.detach())
            return taught + frozen(self.critics, sound) + frozen(self.critics, made)

    frames = size[0] // 256
    return Lived(
        Both, lambda n: (torch.zeros(n, frames, 80), torch.zeros(n, 1, size[0])), lambda module, batch: module(*batch)
    )


def _wavenet(size: tuple[int, ...]) -> Lived:
    class Wave(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            spread = [2 ** (place % 6) for place in range(24)]
            self.first = nn.Conv1d(1, 512, 1)
            self.convs = nn.ModuleList([nn.Conv1d(512, 512, 3, padding=2 * far, dilation=far) for far in spread])
            self.given = nn.ModuleList([nn.Conv1d(80, 512, 1, bias=False) for _ in spread])
            self.out = nn.ModuleList([nn.Conv1d(256, 512, 1) for _ in spread])
            self.skip = nn.ModuleList([nn.Conv1d(256, 256, 1) for _ in spread])
            self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(256, 256, 1), nn.ReLU(), nn.Conv1d(256, 30, 1))

        def forward(self, sound: Tensor, mels: Tensor) -> Tensor:
            x, total = self.first(sound), torch.zeros(())
            for conv, given, out, skip in zip(self.convs, self.given, self.out, self.skip, strict=True):
                one, two = (conv(x)[..., : size[0]] + given(mels)).chunk(2, 1)
                y = torch.tanh(one) * torch.sigmoid(two)
                total = total + skip(y)
                x = (out(y) + x) * 0.7
            mixture = self.last(total)
            logits, means, scales = mixture.chunk(3, 1)
            inside = torch.exp(-scales.clamp(min=-7)) * (sound - means)
            chance = torch.sigmoid(inside + 0.01) - torch.sigmoid(inside - 0.01)
            return -torch.logsumexp(chance.clamp(min=1e-12).log() + logits.log_softmax(1), 1).mean()

    return Lived(
        Wave, lambda n: (torch.zeros(n, 1, size[0]), torch.zeros(n, 80, size[0])), lambda module, batch: module(*batch)
    )


def _wav2vec2(size: tuple[int, ...]) -> Lived:
    import transformers

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = _config("Wav2Vec2", mask_time_prob=0.0, layerdrop=0.0)
            self.body, self.last = transformers.Wav2Vec2Model(config), nn.Linear(768, 256)
            self.codes = nn.Linear(512, 640)

        def forward(self, x: Tensor) -> Tensor:
            output = self.body(x)
            target = self.codes(output.extract_features).softmax(-1)[..., :256]
            return -functional.cosine_similarity(self.last(output.last_hidden_state), target, dim=-1).mean()

    return Lived(Masked, lambda n: torch.zeros(n, size[0]), lambda module, x: module(x))


def _swinir(size: tuple[int, ...]) -> Lived:
    import transformers

    config = transformers.Swin2SRConfig(
        image_size=size[0], embed_dim=180, depths=[6] * 6, num_heads=[6] * 6, window_size=8, mlp_ratio=2.0, upscale=2
    )

    def loss(module: Any, x: Tensor) -> Tensor:
        restored = module(x).reconstruction
        return (restored - torch.zeros_like(restored)).abs().mean()

    return Lived(lambda: transformers.Swin2SRForImageSuperResolution(config), lambda n: images(n, size), loss)


# Graphs

NODES, EDGES, FEATURES = 19717, 88648 + 19717, 500  # of PubMed, with an edge of each node to itself


def _graph(attends: bool) -> Callable[[tuple[int, ...]], Lived]:
    class Layer(nn.Module):
        def __init__(self, before: int, after: int, heads: int) -> None:
            super().__init__()
            self.heads, self.linear = heads, nn.Linear(before, heads * after, bias=False)
            self.ways = nn.Parameter(torch.zeros(2, 1, heads, after))

        def forward(self, x: Tensor, ends: Tensor) -> Tensor:
            x = self.linear(x).unflatten(1, (self.heads, -1))
            sent = x[ends[0]]
            if not attends:
                return torch.zeros_like(x).index_add(0, ends[1], sent * sent.new_ones(EDGES, 1, 1)).flatten(1)
            scores = functional.leaky_relu((sent * self.ways[0]).sum(-1) + (x[ends[1]] * self.ways[1]).sum(-1), 0.2)
            scores = scores.exp()
            total = scores.new_zeros(NODES, self.heads).index_add(0, ends[1], scores)
            sent = functional.dropout(sent, 0.6) * (scores / total[ends[1]])[..., None]
            return torch.zeros_like(x).index_add(0, ends[1], sent).flatten(1)

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = Layer(FEATURES, 8 if attends else 16, 8 if attends else 1)
            self.two = Layer(64 if attends else 16, 3, 8 if attends else 1)

        def forward(self, x: Tensor, ends: Tensor) -> Tensor:
            x = functional.relu(self.one(functional.dropout(x, 0.5), ends))
            scores = self.two(functional.dropout(x, 0.5), ends).unflatten(1, (-1, 3)).mean(1)
            return functional.cross_entropy(scores[:60], labels(60))

    def made(size: tuple[int, ...]) -> Lived:
        return Lived(
            Graph, lambda n: (torch.zeros(NODES, FEATURES), labels(2, EDGES)), lambda module, batch: module(*batch)
        )

    return made


OWN: Mapping[str, Callable[..., Lived]] = {
    "resnet_preact": _preact,
    "resnet_cifar": lambda size, depth, width: _preact(size, depth, width, first=False),
    "resnet9": _resnet9,
    "alexnet": _alexnet,
    "electra_small": _electra,
    "transformer_base": _transformer,
    "transformer_big": lambda size: _transformer(size, 1024, 16),
    "baby_gpt": lambda size: _gpt2(size, n_layer=6, n_head=6, n_embd=384),
    "gpt2_plain": lambda size: _gpt2(size, plain=True),
    "moco": _moco,
    "swav": _swav,
    "dino": _dino,
    "barlow": _barlow,
    "supcon": _supcon,
    "mae_base": _mae,
    "mae_large": lambda size: _mae(size, **LARGE),
    "videomae": _videomae,
    "timesformer": _timesformer,
    "virtex": _virtex,
    "clip_b32": _clip,
    "clip_b16": lambda size: _clip(size, 16),
    "clip_l14": lambda size: _clip(size, 14, wide=True),
    "clip_rn50": _clip_resnet,
    "retinanet": _retinanet,
    "faster": _faster,
    "mask": lambda size, depth: _faster(size, depth, masks=True),
    "pspnet": _pspnet,
    "segformer": _segformer,
    "detr": _detr,
    "detr_dc5": lambda size: _detr(size, dilation=True),
    "cosplace": _cosplace,
    "yolov5": _yolo,
    "nerf": _nerf,
    "unet_cifar": _unet((128, 256, 256, 256), 2, (1,)),
    "unet_edm": _unet((256, 256, 256), 4, (1,)),
    "unet_edm64": _unet((128, 256, 256, 256), 4, (2,)),
    "unet_ncsnpp": _unet((128, 256, 256, 256), 4, (1,)),
    "unet_diffusers": _unet((128, 128, 256, 256, 512, 512), 2, (4,)),
    "dit_xl": _dit,
    "dit_xl_plain": lambda size: _dit(size, checkpoints=False),
    "dit_xl_features": lambda size: _dit(size, encodes=False),
    "sd_inversion": lambda size: _stable_diffusion(size, "inversion"),
    "sd_lora": lambda size: _stable_diffusion(size, "lora"),
    "sdxl_lora": _sdxl,
    "cyclegan": _cyclegan,
    "pix2pix": _pix2pix,
    "hifigan": _hifigan,
    "wavenet": _wavenet,
    "wav2vec2_base": _wav2vec2,
    "swinir": _swinir,
    "gcn_pubmed": _graph(False),
    "gat_pubmed": _graph(True),
}
