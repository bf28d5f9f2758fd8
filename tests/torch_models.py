# pyright: basic, reportMissingImports=false
"""Eight models as PyTorch's users write them, narrow, and arguments of several sizes for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as PyTorch's users call it
from torch import nn

WORDS = 50


def convolved(inputs: int, outputs: int, size: int = 3, stride: int = 1, groups: int = 1) -> Any:
    """A convolution that keeps the size, and its norm."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    )


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = convolved(inputs, outputs, 3, stride), convolved(outputs, outputs)
        same = stride == 1 and inputs == outputs
        self.beside = nn.Identity() if same else convolved(inputs, outputs, 1, stride)

    def forward(self, x: Any) -> Any:
        return F.relu(self.second(F.relu(self.first(x))) + self.beside(x))


class ResNet18(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        blocks, inputs = [], width
        for k in range(4):
            outputs = width * 2**k
            blocks += [Residual(inputs, outputs, 1 + (k > 0)), Residual(outputs, outputs, 1)]
            inputs = outputs
        self.stem, self.pool = convolved(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(inputs, 10)

    def forward(self, x: Any) -> Any:
        x = self.blocks(self.pool(F.relu(self.stem(x))))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Inverted(nn.Module):
    def __init__(self, inputs: int, wide: int, outputs: int, size: int, stride: int) -> None:
        super().__init__()
        self.wide = nn.Sequential(convolved(inputs, wide, 1), nn.Hardswish())
        self.each = nn.Sequential(convolved(wide, wide, size, stride, wide), nn.ReLU())
        self.squeeze, self.excite = nn.Conv2d(wide, 4, 1), nn.Conv2d(4, wide, 1)
        self.narrow, self.same = convolved(wide, outputs, 1), stride == 1 and inputs == outputs

    def forward(self, x: Any) -> Any:
        y = self.each(self.wide(x))
        share = self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1))))
        y = self.narrow(y * F.hardsigmoid(share))
        return x + y if self.same else y


class MobileNetV3(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            convolved(3, 8, 3, 2), nn.Hardswish(), Inverted(8, 8, 8, 3, 2),
            Inverted(8, 16, 12, 3, 2), Inverted(12, 24, 12, 5, 1),
        )  # fmt: skip
        self.head = nn.Sequential(
            nn.Linear(12, 16), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(16, 10)
        )

    def forward(self, x: Any) -> Any:
        return self.head(self.features(x).mean((2, 3)))


def twice(inputs: int, outputs: int) -> Any:
    return nn.Sequential(
        convolved(inputs, outputs), nn.ReLU(), convolved(outputs, outputs), nn.ReLU()
    )


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([twice(3, 4), twice(4, 8), twice(8, 16)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(16, 8, 2, 2), nn.ConvTranspose2d(8, 4, 2, 2)])
        self.back, self.out = nn.ModuleList([twice(16, 8), twice(8, 4)]), nn.Conv2d(4, 2, 1)

    def forward(self, x: Any) -> Any:
        first = self.down[0](x)
        second = self.down[1](F.max_pool2d(first, 2))
        y = self.down[2](F.max_pool2d(second, 2))
        y = self.back[0](torch.cat([self.up[0](y), second], 1))
        return self.out(self.back[1](torch.cat([self.up[1](y), first], 1)))


class Layer(nn.Module):
    """Attention and a feed-forward net, with norms before or after."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, first: bool = True) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads, self.dropout, self.first = heads, dropout, first

    def split(self, x: Any) -> list[Any]:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        return [part.view(shape).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)]

    def attend(self, q: Any, k: Any, v: Any, **options: Any) -> Any:
        rate = self.dropout if self.training else 0.0
        found = F.scaled_dot_product_attention(q, k, v, dropout_p=rate, **options)
        joined = found.transpose(1, 2).flatten(2)
        return F.dropout(self.out(joined), self.dropout, self.training)

    def feed(self, x: Any) -> Any:
        found = self.narrow(F.gelu(self.wide(x), approximate="tanh"))
        return F.dropout(found, self.dropout, self.training)

    def forward(self, x: Any, **options: Any) -> Any:
        before, after = self.norms
        if self.first:
            x = x + self.attend(*self.split(before(x)), **options)
            return x + self.feed(after(x))
        x = before(x + self.attend(*self.split(x), **options))
        return after(x + self.feed(x))


class Bert(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=0)
        self.places, self.norm = nn.Embedding(32, width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(Layer(width, 2, first=False) for _ in range(2))
        self.head = nn.Linear(width, width)

    def forward(self, ids: Any, mask: Any) -> Any:
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device)))
        bias = (1.0 - mask[:, None, None, :].float()) * -1e4
        for layer in self.layers:
            x = layer(x, attn_mask=bias)
        return torch.tanh(self.head(x[:, 0]))


class Gpt2(nn.Module):
    """One step with a cache of keys and values; without one, a whole text."""

    def __init__(self, width: int = 16, dropout: float = 0.1) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(64, width)
        self.layers = nn.ModuleList(Layer(width, 2, dropout) for _ in range(2))
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)

    def forward(self, ids: Any, *cache: Any) -> Any:
        going_on = len(cache) > 0
        start = cache[0].shape[2] if going_on else 0
        places = torch.arange(start, start + ids.shape[1], device=ids.device)
        x = self.words(ids) + self.places(places)
        x, kept = self.dropout(x), []
        for number, layer in enumerate(self.layers):
            q, k, v = layer.split(layer.norms[0](x))
            if going_on:
                k = torch.cat([cache[2 * number], k], 2)
                v = torch.cat([cache[2 * number + 1], v], 2)
                kept += [k, v]
            x = x + layer.attend(q, k, v, is_causal=not going_on)
            x = x + layer.feed(layer.norms[1](x))
        return self.norm(x) @ self.words.weight.T, *kept


class Tagger(nn.Module):
    def __init__(self, times: int = 1) -> None:
        super().__init__()
        inner, wide = 5 * times, 6 * times
        self.words, self.head = nn.Embedding(WORDS, wide), nn.Linear(2 * inner, 4)
        self.lstm = nn.LSTM(wide, inner, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, ids: Any) -> Any:
        return self.head(self.lstm(self.words(ids))[0]).log_softmax(-1)


class ViT(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, width, 8, 8), nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 17, width))
        self.layers = nn.ModuleList(Layer(width, 2) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


class Diffusion(nn.Module):
    """A block of a diffusion U-Net: norms, the time, attention over the image, a larger image."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        wide = 2 * width
        self.norms = nn.ModuleList(nn.GroupNorm(4, n) for n in (width, wide, wide))
        self.first, self.second = nn.Conv2d(width, wide, 3, 1, 1), nn.Conv2d(wide, wide, 3, 1, 1)
        self.time, self.beside = nn.Linear(16, wide), nn.Conv2d(width, wide, 1)
        self.layer, self.last = Layer(wide, 2), nn.Conv2d(wide, width, 3, 1, 1)

    def forward(self, x: Any, time: Any) -> Any:
        waves = time[:, None].float() * torch.exp(torch.arange(8) * (-9.2 / 8))
        time = self.time(F.silu(torch.cat([waves.sin(), waves.cos()], -1)))
        y = self.first(F.silu(self.norms[0](x))) + time[:, :, None, None]
        y = self.second(F.silu(self.norms[1](y))) + self.beside(x)
        seen = self.layer(self.norms[2](y).flatten(2).transpose(1, 2))
        y = y + seen.transpose(1, 2).reshape(y.shape)
        return self.last(F.interpolate(y, scale_factor=2.0, mode="nearest"))


def ids(*shape: int) -> Any:
    return torch.randint(1, WORDS, shape)


def cached(length: int) -> tuple[Any, ...]:
    return ids(1, 1), *(torch.randn(1, 2, length, 8) for _ in range(4))


def images(count: int) -> tuple[Any, ...]:
    return (torch.randn(count, 3, 32, 32),)


MODELS: dict[str, tuple[Callable[[], Any], Callable[[int], tuple[Any, ...]]]] = {
    "ResNet-18": (ResNet18, images),
    "MobileNetV3": (MobileNetV3, images),
    "U-Net": (UNet, lambda n: (torch.randn(n, 3, 16, 16),)),
    "BERT": (Bert, lambda n: (ids(3, n + 5), ids(3, n + 5) % 2)),
    "GPT-2": (Gpt2, cached),
    "LSTM tagger": (Tagger, lambda n: (ids(3, n + 5),)),
    "ViT": (ViT, images),
    "diffusion": (Diffusion, lambda n: (torch.randn(n, 8, 6, 6), torch.randint(0, 1000, (n,)))),
}
"""A model, and arguments whose number says a batch or a length."""
