"""Models of the explorer that no library gives: a word-level LSTM, a recommender, the U-Net of a diffusion model."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from whichdevice.forecast.torch.trace import Step


@dataclass(frozen=True)
class Model:
    """How a module, a batch and its loss are made; the optimiser is AdamW."""

    build: Callable[[], nn.Module]
    batch: Callable[[int], Any]
    loss: Callable[[nn.Module, Any], Tensor]
    unit: str

    def step(self, precision: str) -> Step:
        """The step to trace."""
        return Step(self.build, self.batch, self.loss, lambda module: torch.optim.AdamW(module.parameters()), precision)


class WordLstm(nn.Module):
    """Two layers of 650 units over 10,000 words."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.layers = nn.Embedding(10_000, 650), nn.LSTM(650, 650, 2, batch_first=True, dropout=0.5)
        self.scores = nn.Linear(650, 10_000)

    def forward(self, words: Tensor) -> Tensor:
        """[n, 35] words to [n, 35, 10000]."""
        return self.scores(self.layers(self.words(words))[0])


class Recommender(nn.Module):
    """26 tables of a million rows, 13 numbers, products of pairs of features, two stacks of dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(1_000_000, 64, mode="sum", sparse=False) for _ in range(26))
        self.below = _dense(13, 512, 256, 64)
        self.above = _dense(64 + 27 * 26 // 2, 512, 256, 1)

    def forward(self, numbers: Tensor, names: Tensor) -> Tensor:
        """[n, 13] and [n, 26] to [n]."""
        dense = self.below(numbers)
        found = [table(names[:, place : place + 1]) for place, table in enumerate(self.tables)]
        features = torch.stack([dense, *found], 1)
        products = torch.bmm(features, features.transpose(1, 2))
        upper = torch.triu_indices(27, 27, 1)
        return self.above(torch.cat([dense, products[:, upper[0], upper[1]]], 1)).squeeze(1)


def _dense(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Residual(nn.Module):
    """Two convolutions with a time's embedding between them."""

    def __init__(self, before: int, after: int, time: int = 1280) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
        self.norms = nn.ModuleList([nn.GroupNorm(32, before), nn.GroupNorm(32, after)])
        self.time, self.past = nn.Linear(time, after), nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """[n, before, h, w] to [n, after, h, w]."""
        inner = self.first(functional.silu(self.norms[0](x))) + self.time(functional.silu(time))[:, :, None, None]
        return self.past(x) + self.second(functional.silu(self.norms[1](inner)))


class Attention(nn.Module):
    """Self-attention, attention to 77 words of 768 numbers, and a gated dense layer, over all places of an image."""

    def __init__(self, width: int, heads: int = 8) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(32, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.inner, self.outer = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)
        self.queries = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(2))
        self.pairs = nn.ModuleList(nn.Linear(each, 2 * width, bias=False) for each in (width, 768))
        self.ends = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        """[n, width, h, w] to the same shape."""
        n, width, high, wide = x.shape
        rows = self.inner(self.norm(x)).flatten(2).transpose(1, 2)
        for place, other in enumerate((None, words)):
            normed = self.norms[place](rows)
            rows = rows + self._attended(place, normed, normed if other is None else other)
        value, gate = self.up(self.norms[2](rows)).chunk(2, -1)
        rows = rows + self.down(value * functional.gelu(gate))
        return x + self.outer(rows.transpose(1, 2).reshape(n, width, high, wide))

    def _attended(self, place: int, rows: Tensor, other: Tensor) -> Tensor:
        def split(each: Tensor) -> Tensor:
            return each.unflatten(2, (self.heads, -1)).transpose(1, 2)

        keys, values = self.pairs[place](other).chunk(2, -1)
        found = functional.scaled_dot_product_attention(split(self.queries[place](rows)), split(keys), split(values))
        return self.ends[place](found.transpose(1, 2).flatten(2))


class DiffusionUnet(nn.Module):
    """Noise of latent images of 64 × 64: four levels of 320 to 1280 channels, about 860 million parameters."""

    WIDTHS = (320, 640, 1280, 1280)

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(320, 1280), nn.SiLU(), nn.Linear(1280, 1280))
        self.first, self.last = nn.Conv2d(4, 320, 3, padding=1), nn.Conv2d(320, 4, 3, padding=1)
        self.down, self.up, before, skips = nn.ModuleList(), nn.ModuleList(), 320, [320]
        for level, width in enumerate(self.WIDTHS):
            for _ in range(2):
                self.down.append(_Level(before, width, level < 3))
                before = width
                skips.append(width)
            if level < 3:
                self.down.append(nn.Conv2d(width, width, 3, stride=2, padding=1))
                skips.append(width)
        self.middle = nn.ModuleList([_Level(1280, 1280, True), Residual(1280, 1280)])
        for level in (3, 2, 1, 0):
            width = self.WIDTHS[level]
            for number in range(3):
                self.up.append(_Level(before + skips.pop(), width, level < 3, number == 2 and level > 0))
                before = width
        self.norm = nn.GroupNorm(32, 320)

    def forward(self, x: Tensor, time: Tensor, words: Tensor) -> Tensor:
        """[n, 4, 64, 64], [n, 320] and [n, 77, 768] to [n, 4, 64, 64]."""
        time, x = self.time(time), self.first(x)
        skips = [x]
        for part in self.down:
            x = part(x, time, words) if isinstance(part, _Level) else part(x)
            skips.append(x)
        x = self.middle[1](self.middle[0](x, time, words), time)
        for part in self.up:
            x = part(torch.cat([x, skips.pop()], 1), time, words)
        return self.last(functional.silu(self.norm(x)))


class _Level(nn.Module):
    def __init__(self, before: int, after: int, attends: bool, grows: bool = False) -> None:
        super().__init__()
        self.block = Residual(before, after)
        self.attention = Attention(after) if attends else None
        self.grown = nn.Conv2d(after, after, 3, padding=1) if grows else None

    def forward(self, x: Tensor, time: Tensor, words: Tensor) -> Tensor:
        x = self.block(x, time)
        if self.attention is not None:
            x = self.attention(x, words)
        return x if self.grown is None else self.grown(functional.interpolate(x, scale_factor=2.0))


def _words_loss(module: nn.Module, words: Tensor) -> Tensor:
    return functional.cross_entropy(module(words).flatten(0, 1), words.flatten())


MODELS = {
    "LSTM, 2 x 650, 10,000 words": Model(
        WordLstm, lambda n: torch.zeros(n, 35, dtype=torch.long), _words_loss, "sequence"
    ),
    "recommender, 26 tables of a million rows": Model(
        Recommender,
        lambda n: (torch.zeros(n, 13), torch.zeros(n, 26, dtype=torch.long), torch.zeros(n)),
        lambda module, batch: functional.binary_cross_entropy_with_logits(module(batch[0], batch[1]), batch[2]),
        "example",
    ),
    "diffusion U-Net, 64 x 64 latents": Model(
        DiffusionUnet,
        lambda n: (torch.zeros(n, 4, 64, 64), torch.zeros(n, 320), torch.zeros(n, 77, 768)),
        lambda module, batch: functional.mse_loss(module(*batch), batch[0]),
        "image",
    ),
}
