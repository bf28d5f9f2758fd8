# pyright: basic, reportMissingImports=false
"""Models of PyTorch as people export them, narrow and with random weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor, nn

from tests.torch_models import WORDS, ResNet18, Tagger, convolved

WIDTH, HEADS, LAYERS = 32, 4, 2


class Squeeze(nn.Module):
    """Channels scaled by what all places say."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.less, self.more = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * F.hardsigmoid(self.more(F.relu(self.less(F.adaptive_avg_pool2d(x, 1)))))


class Inverted(nn.Module):
    """MobileNet's block: wide inside, one filter for each channel."""

    def __init__(self, inner: int, wide: int, outer: int, size: int, stride: int) -> None:
        super().__init__()
        self.same = stride == 1 and inner == outer
        self.layers = nn.Sequential(
            convolved(inner, wide, 1), nn.Hardswish(),
            convolved(wide, wide, size, stride, groups=wide), Squeeze(wide), nn.Hardswish(),
            convolved(wide, outer, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        found = self.layers(x)
        return x + found if self.same else found


class MobileNetV3(nn.Module):
    def __init__(self, times: int = 1) -> None:
        super().__init__()
        n = 4 * times
        self.layers = nn.Sequential(
            convolved(3, 2 * n, 3, 2), nn.Hardswish(), Inverted(2 * n, 4 * n, 2 * n, 3, 1),
            Inverted(2 * n, 6 * n, 3 * n, 3, 2), Inverted(3 * n, 8 * n, 3 * n, 5, 1),
            convolved(3 * n, 12 * n, 1), nn.Hardswish(),
        )  # fmt: skip
        self.head = nn.Sequential(
            nn.Linear(12 * n, 8 * n), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(8 * n, 10)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.adaptive_avg_pool2d(self.layers(x), 1).flatten(1))


class UNet(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()

        def pair(inner: int, outer: int) -> Any:
            return nn.Sequential(convolved(inner, outer, 3), nn.ReLU(),
                                 nn.Conv2d(outer, outer, 3, 1, 1), nn.ReLU())  # fmt: skip

        self.down = nn.ModuleList([pair(3, width), pair(width, 2 * width)])
        self.middle = pair(2 * width, 4 * width)
        self.larger = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.up = nn.ModuleList([pair(4 * width, 2 * width), pair(3 * width, width)])
        self.out = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down[0](x)
        second = self.down[1](F.max_pool2d(first, 2))
        middle = self.middle(F.max_pool2d(second, 2))
        joined = self.up[0](torch.cat([self.larger(middle), second], 1))
        wide = F.interpolate(joined, scale_factor=2, mode="bilinear", align_corners=False)
        return self.out(self.up[1](torch.cat([wide, first], 1)))


class Layer(nn.Module):
    """A transformer's layer; the norms stand before or after."""

    def __init__(self, before: bool, width: int) -> None:
        super().__init__()
        self.before = before
        self.three, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, mask: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        batch, time, _ = x.shape
        given = self.norms[0](x) if self.before else x
        parts = self.three(given).view(batch, time, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(found.transpose(1, 2).reshape(batch, time, -1))
        if not self.before:
            x = self.norms[0](x)
        inner = self.wide(self.norms[1](x) if self.before else x)
        x = x + self.narrow(F.gelu(inner, approximate="tanh" if self.before else "none"))
        return (x if self.before else self.norms[1](x)), torch.stack([k, v])


class Words(nn.Module):
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.word, self.place = nn.Embedding(WORDS, width), nn.Embedding(64, width)
        self.norm = nn.LayerNorm(width)


class Bert(Words):
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__(width)
        self.layers = nn.ModuleList([Layer(False, width) for _ in range(LAYERS)])
        self.pool = nn.Linear(width, width)

    def forward(self, words: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        x = self.norm(self.word(words) + self.place(torch.arange(words.shape[1])))
        mask = (1.0 - seen[:, None, None, :].to(x.dtype)) * -1e9
        for layer in self.layers:
            x, _ = layer(x, mask)
        return x, torch.tanh(self.pool(x[:, 0]))


class Gpt2(Words):
    """past: keys and values of the words before. (layers, 2, batch, heads, time, width)."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__(width)
        self.layers = nn.ModuleList([Layer(True, width) for _ in range(LAYERS)])

    def forward(self, words: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        time, before = words.shape[1], past.shape[4]
        places = torch.arange(before, before + time)
        x = self.word(words) + self.place(places)
        mask = torch.arange(before + time)[None, :] <= places[:, None]
        kept = []
        for k, layer in enumerate(self.layers):
            x, pair = layer(x, mask, past[k])
            kept.append(pair)
        return self.norm(x) @ self.word.weight.T, torch.stack(kept)


class ViT(nn.Module):
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 8, 8)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.place = nn.Parameter(torch.randn(1, 17, width))
        layer = nn.TransformerEncoderLayer(
            width, HEADS, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patch(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.first.expand(x.shape[0], -1, -1), patches], 1) + self.place
        return self.head(self.layers(y)[:, 0])


class Diffusion(nn.Module):
    """A block of a diffusion model's U-Net: a residual part that knows the step, and attention."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(4, channels) for _ in range(3)])
        self.first, self.second = (nn.Conv2d(channels, channels, 3, 1, 1) for _ in range(2))
        self.step = nn.Sequential(nn.Linear(32, channels), nn.SiLU(), nn.Linear(channels, channels))
        self.three, self.out = (
            nn.Conv2d(channels, 3 * channels, 1),
            nn.Conv2d(channels, channels, 1),
        )

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        turn = step[:, None] * torch.exp(-math.log(1e4) * torch.arange(16) / 16)[None]
        known = self.step(torch.cat([turn.sin(), turn.cos()], -1))
        h = self.first(F.silu(self.norms[0](x))) + known[:, :, None, None]
        h = x + self.second(F.silu(self.norms[1](h)))
        batch, channels, height, width = h.shape
        parts = self.three(self.norms[2](h)).reshape(batch, 3, channels, height * width)
        q, k, v = parts.unbind(1)
        share = torch.softmax(q.transpose(1, 2) @ k / math.sqrt(channels), -1)
        return h + self.out((v @ share.transpose(1, 2)).reshape(h.shape))


OPEN = torch.export.Dim.DYNAMIC
Inputs = tuple[Tensor, ...]


def images(batch: int, size: int = 32, channels: int = 3) -> Tensor:
    return torch.randn(batch, channels, size, size)


def words(batch: int, time: int) -> Tensor:
    return torch.randint(0, WORDS, (batch, time))


def cache(batch: int, time: int, width: int = WIDTH) -> Tensor:
    return torch.randn(LAYERS, 2, batch, HEADS, time, width // HEADS)


Model = tuple[Callable[[], nn.Module], list[Inputs], tuple[dict[int, Any], ...]]


def models(times: int = 1, longer: int = 1) -> dict[str, Model]:
    """
    Name -> the model, inputs of several sizes, and the axes that vary. So many times wider than
    they are in tests, and on texts so many times longer.
    """
    width, k = times * WIDTH, longer
    photos = [(images(n),) for n in (2, 3, 5)]
    sizes = ((2, 7 * k), (3, 5 * k), (4, 11 * k))
    both = {0: OPEN, 1: OPEN}
    return {
        "ResNet-18": (lambda: ResNet18(8 * times), photos, ({0: OPEN},)),
        "MobileNetV3": (lambda: MobileNetV3(times), photos, ({0: OPEN},)),
        "U-Net": (lambda: UNet(4 * times), photos, ({0: OPEN},)),
        "BERT": (
            lambda: Bert(width),
            [(words(b, t), torch.ones(b, t, dtype=torch.int64)) for b, t in sizes],
            (both, both),
        ),
        "GPT-2": (
            lambda: Gpt2(width),
            [
                (words(b, t), cache(b, p * k, width))
                for b, t, p in ((2, 3, 4), (2, 2, 7), (3, 4, 9))
            ],
            (both, {2: OPEN, 4: OPEN}),
        ),
        "LSTM": (lambda: Tagger(times), [(words(b, t),) for b, t in sizes], (both,)),
        "ViT": (lambda: ViT(width), photos, ({0: OPEN},)),
        "diffusion": (
            lambda: Diffusion(16 * times),
            [(images(n, 8, 16 * times), torch.rand(n) * 100) for n in (2, 3, 5)],
            ({0: OPEN}, {0: OPEN}),
        ),
    }


MODELS = models()
