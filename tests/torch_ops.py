# pyright: basic, reportMissingImports=false
"""Functions of PyTorch, a family of ops each, with arguments; all results are compared."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as PyTorch's users call it

UNARY = [
    torch.abs, torch.neg, torch.exp, torch.expm1, torch.sin, torch.tanh, torch.sigmoid, F.relu,
    F.silu, F.gelu, F.hardswish, F.hardsigmoid, F.elu, F.selu, F.leaky_relu, F.softplus, F.mish,
    F.logsigmoid, F.relu6, F.hardtanh, torch.erf, torch.floor, torch.round, torch.trunc,
    torch.sign, torch.square, torch.atan, F.softsign,
]  # fmt: skip


def unary(x: Any) -> list[Any]:
    y = x.abs() + 0.5
    parts = (torch.log, torch.log2, torch.log1p, torch.sqrt, torch.rsqrt, torch.reciprocal)
    return [f(x) for f in UNARY] + [f(y) for f in parts]


def binary(x: Any, y: Any) -> list[Any]:
    z = y.abs() + 0.5
    return [
        torch.add(x, y, alpha=2), 2 - x, x * y, x / z, x % z, torch.fmod(x, z),
        torch.maximum(x, y), torch.minimum(x, y), z**x, x**2, z**0.5, 2**x, torch.atan2(x, y),
        x > y, x <= 0.5, torch.where(x > 0, x, y), torch.where(x > 0, x, 0.0), x.clamp(-0.5, 0.5),
        x.clamp(min=0), x.clamp_max(0.2), torch.addcmul(x, y, z, value=0.5),
        torch.lerp(x, y, 0.3), torch.addcdiv(x, y, z), x.double() + y, x.masked_fill(y > 0, -1e9),
    ]  # fmt: skip


def integers(x: Any, i: Any) -> list[Any]:
    return [
        i > 0.5, i == 1, i + 1.5, i / 2, i // 2, i % 2, (i > 1) & (x > 0), (i > 1) | (x > 0),
        ~(i > 1), i.float(), torch.logical_xor(x > 0, i > 1), (i - 2) >> 1, i * True, x * i,
        x // 0.3, *(torch.div(a, b, rounding_mode="trunc") for a, b in ((i - 2, 2), (x, 0.3))),
    ]  # fmt: skip


def views(x: Any) -> list[Any]:
    return [
        x.view(-1), x.permute(2, 0, 1), x.transpose(0, 2), x.unsqueeze(1), x[:, None, 1:3], x[1],
        x[..., 0], x[:, ::2], x[-2:], x[:, -3:-1], x.flip(0, 2), x.roll(1, 0),
        torch.cat([x, x[:1]]), torch.stack([x, x], 1), *x.split(2, 2), *x.chunk(2, 1),
        *x.unbind(1), x.repeat(2, 1, 1), x.expand(2, *x.shape).sum(0), F.pad(x, (1, 2, 0, 1)),
        F.pad(x, (-1, 1), value=3.0), x.mT.contiguous(), torch.tril(x), torch.triu(x, 1),
        x.flatten(1), torch.zeros_like(x) + 1, torch.arange(1, 9, 2), torch.full((2, 2), 3.0),
        x.diagonal(0, 1, 2), torch.eye(2) + x[0, :2, :2], x.movedim(0, -1), x.expand(3, *x.shape),
        torch.linspace(0, 1, 5) + x[0, 0, 0],
    ]  # fmt: skip


def picks(x: Any, i: Any, w: Any) -> list[Any]:
    places = (i % x.shape[1])[:12].reshape(6, 2)
    return [
        x[i], x[:, i % 5], torch.gather(x, 1, places), F.embedding(i, w), x.index_select(0, i),
        x.scatter(1, places, 5.0), (x * 0).scatter_add(0, i[:, None].expand(-1, 5), x[i]),
        torch.zeros_like(x).index_add(0, i, x[i]), x[i, i % 5],
        x.index_put((i[:2], i[:2] % 5), torch.tensor(1.0)), F.one_hot(i, 8),
    ]  # fmt: skip


def reductions(x: Any, i: Any) -> list[Any]:
    return [
        x.sum(), x.sum(1), x.sum((0, 2), keepdim=True), x.mean(-1), x.amax(1), x.amin((0, 1)),
        *x.max(1), *x.min(2, keepdim=True), x.max(), x.argmax(), x.argmax(1), x.argmin(-1),
        x.prod(1), x.var(), x.std(0), x.var(1, unbiased=False), *torch.var_mean(x, 1),
        x.cumsum(1), x.any(1), (x > 0).all(), (x > 0).sum(), i.sum(), x.norm(dim=1),
        x.logsumexp(1), *x.sort(1), *x.sort(1, descending=True), *x.topk(2, 1), x.cumprod(1),
        torch.linalg.vector_norm(x, 1, dim=1),
    ]  # fmt: skip


def products(x: Any, y: Any, b: Any, v: Any) -> list[Any]:
    return [
        x @ y, torch.bmm(b, b.mT), torch.addmm(v, x, y), F.linear(x, y.t(), v), x @ y[:, 0],
        torch.einsum("bij,bkj->bik", b, b), torch.dot(v, v), torch.outer(v, v),
        torch.baddbmm(b @ b.mT, b, b.mT, beta=0.5, alpha=2), torch.matmul(b, b[0].mT),
    ]  # fmt: skip


def norms(x: Any, w: Any, b: Any) -> list[Any]:
    return [
        F.softmax(x, 1), F.log_softmax(x, -1), F.layer_norm(x, x.shape[-1:], w, b),
        F.layer_norm(x, x.shape[-2:]), F.group_norm(x, 2), F.instance_norm(x),
        F.rms_norm(x, x.shape[-1:], w), F.normalize(x, dim=1), F.cosine_similarity(x, x + 1, dim=1),
    ]  # fmt: skip


def losses(x: Any, y: Any, t: Any) -> list[Any]:
    return [
        F.cross_entropy(x, t), F.cross_entropy(x, t, label_smoothing=0.1),
        F.nll_loss(F.log_softmax(x, 1), t, reduction="sum"), F.mse_loss(x, y), F.l1_loss(x, y),
        F.smooth_l1_loss(x, y), F.binary_cross_entropy_with_logits(x, y.sigmoid()),
        F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1), reduction="batchmean"),
    ]  # fmt: skip


def convolutions(x: Any, w: Any, b: Any, each: Any) -> list[Any]:
    return [
        F.conv2d(x, w, b), F.conv2d(x, w, None, 2, 1), F.conv2d(x, w, b, 1, 2, 2),
        F.conv2d(x, each, None, 1, 1, 1, 4), F.conv_transpose2d(x, w, None, 2, 1, 1),
        F.conv1d(x[:, :, 0], w[:, :, 0], b, padding=1),
    ]  # fmt: skip


def pools(x: Any, b: Any) -> list[Any]:
    coarse = (x * 2).round()  # with equal elements in a window
    return [
        F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1),
        F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), F.adaptive_avg_pool2d(x, 4),
        F.adaptive_avg_pool2d(x, 1), F.max_pool2d(x, 2), F.max_pool2d(coarse, 3, 2, 1),
        F.max_pool2d(x, 3, 2, 1, ceil_mode=True), *F.max_pool2d(x, 3, 2, 1, return_indices=True),
        F.interpolate(x, scale_factor=2), F.interpolate(x, scale_factor=2, mode="bilinear"),
        F.pixel_shuffle(x, 2), F.pad(x, (1, 1, 1, 1), mode="reflect"),
        F.batch_norm(x, torch.zeros(4), torch.ones(4), b, b),
    ]  # fmt: skip


def attention(q: Any, k: Any, v: Any, m: Any) -> list[Any]:
    attend = F.scaled_dot_product_attention
    return [
        attend(q, k, v), attend(q, k, v, is_causal=True), attend(q, k, v, attn_mask=m),
        attend(q, k, v, attn_mask=m > 0, scale=0.3), attend(q, k[:, :1], v[:, :1], enable_gqa=True),
    ]  # fmt: skip


def further_pools(x: Any, lines: Any) -> list[Any]:
    """Windows that differ from one another, and padding that counts or not."""
    return [
        F.adaptive_avg_pool2d(x, (3, 5)), F.adaptive_avg_pool2d(x, (9, 1)),
        F.adaptive_avg_pool1d(lines, 3), F.adaptive_avg_pool3d(x, (3, 2, 7)),
        *F.adaptive_max_pool2d(x, (3, 5), return_indices=True), F.adaptive_max_pool1d(lines, 3),
        F.adaptive_max_pool3d(x, (3, 2, 7)), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=5),
        F.pad(x, (1, 2, 0, 1), mode="replicate"), F.pad(lines, (1, 2), mode="replicate"),
    ]  # fmt: skip


def spectra(x: Any, y: Any) -> list[Any]:
    z = torch.complex(x, y)
    return [
        z.abs(), z.angle(), torch.view_as_real(z * torch.polar(x.abs(), y)),
        torch.view_as_real(z.conj() @ torch.complex(y, x).mT), torch.linalg.vector_norm(z),
        torch.view_as_complex(torch.stack([x, y], -1)).imag, z.conj().imag, torch.sgn(z).real,
        torch.fft.fft(x).abs(), torch.fft.rfft(x, norm="ortho").real, torch.fft.fft2(z).imag,
        torch.fft.irfft(torch.fft.rfft(x), norm="forward"), torch.fft.ifft(z, dim=0).real,
        torch.view_as_real(torch.stft(x, 4, 2, window=torch.hann_window(4), return_complex=True)),
    ]  # fmt: skip


def samples(x: Any, places: Any, a: Any, b: Any, weights: Any) -> list[Any]:
    modes = [("bilinear", "zeros"), ("nearest", "border"), ("bicubic", "reflection")]
    return [
        *(F.grid_sample(x, places, m, around, align_corners=m != "nearest") for m, around in modes),
        *(torch.cdist(a, b, order) for order in (0.0, 1.0, 2.0, 3.0, torch.inf)),
        torch.cdist(a, a), F.pdist(a), F.bilinear(a, a, weights),
    ]  # fmt: skip


def bags(table: Any, weights: Any, i: Any, starts: Any) -> list[Any]:
    each = [(mode, padding) for mode in ("sum", "mean") for padding in (None, 2)]
    return [
        *(F.embedding_bag(i, table, starts, mode=m, padding_idx=p) for m, p in each),
        F.embedding_bag(i, table, starts, mode="sum", per_sample_weights=weights),
        F.embedding_bag(i, table, starts, mode="mean", include_last_offset=True),
        F.embedding(i, table, scale_grad_by_freq=True),
    ]  # fmt: skip


def scatters(x: Any, y: Any, i: Any) -> list[Any]:
    ways = [(how, own) for how in ("sum", "mean", "amax", "amin", "prod") for own in (True, False)]
    table = x[0].sort()[0]
    return [
        *(x.scatter_reduce(1, i, y, how, include_self=own) for how, own in ways),
        x.masked_scatter(y > 0, y), x.put(i[0], y[0]), x.put(i[0], y[0], accumulate=True),
        torch.diagonal_scatter(x, y[0, :3], 1), x.unfold(1, 3, 2), x.unfold(0, 2, 1),
        torch.searchsorted(table, y), torch.bucketize(y, table, right=True),
        torch.tril_indices(3, 4, 1), torch.triu_indices(4, 3), torch.addbmm(x, x[None], y[None]),
        torch.gcd(i, i.flip(0)), torch.lcm(i, i.flip(0)), torch.lgamma(x.abs() + 1),
        torch.digamma(x.abs().detach() + 1),
        x.round(decimals=1), (x * 99).round(decimals=-1), x.sum().scatter(0, i[0, 0] * 0, 2.0),
        x.sum().topk(1)[0],
    ]  # fmt: skip


def orders(x: Any, i: Any) -> list[Any]:
    """Of equal ones, NaN and infinities; PyTorch does not say places of equal ones in all."""
    odd = torch.where(i == 3, torch.inf, torch.where(i == 1, torch.nan, i.float()))
    return [
        *x.kthvalue(2, 1), x.kthvalue(3, 0, keepdim=True)[0], odd.kthvalue(4, 1)[0], x[0].median(),
        *x.median(1), *x.median(0, keepdim=True), odd.median(1)[0], *x.nanmedian(1),
        odd.nanmedian(), odd.nanmedian(0)[0], i.median(1)[0], *i.mode(1), *x.mode(),
        *odd.nan_to_num(9).mode(0, keepdim=True),
        *x.cummax(1), *x.cummin(0), *odd.cummax(1), *odd.cummin(1), *i.cummax(0), x.cummin(1)[0],
        *(i > 1).cummax(1), x.logcumsumexp(1), odd.logcumsumexp(0), *x.sum().cummax(0),
        *x.sum().median(0), x.sum().mode()[0], torch.dist(x, x.flip(0), 3), torch.dist(x, x + i),
    ]  # fmt: skip


def special(x: Any, p: Any) -> list[Any]:
    return [
        torch.erfinv(p * 2 - 1), torch.special.i0e(x), torch.special.i1(x), torch.special.i1e(x),
        torch.polygamma(1, p + 1), torch.polygamma(2, p + 0.5), torch.special.ndtr(x),
        torch.ldexp(x, (p * 9).detach().int()),
        torch.special.zeta(p.detach() + 1.5, p.detach() + 1),
    ]  # fmt: skip


def matrices(x: Any, b: Any, c: Any) -> list[Any]:
    """Of stacks of matrices that are far from singular; signs of vectors are not said."""
    g = torch.linalg
    a = x + 5 * torch.eye(4)
    s, wide = a @ a.mT, x[:, :3]
    u, values, v = g.svd(wide, full_matrices=False)
    q, r = g.qr(wide.mT)
    low = g.cholesky(s)
    return [
        g.inv(a), g.solve(a, b), g.solve(a, b[0]), g.solve(a, c), g.solve(a, b.mT, left=False),
        low, g.cholesky(s.tril(), upper=False), g.cholesky(s.triu(), upper=True),
        torch.cholesky_solve(b, low), torch.cholesky_solve(b, low.mT, upper=True),
        torch.cholesky_inverse(low[0]), g.slogdet(a)[1], g.slogdet(a)[0], torch.logdet(s), g.det(a),
        q.abs(), r.abs(), q @ r, g.qr(wide, mode="complete")[1].detach().abs(), g.svdvals(wide),
        g.qr(a.detach(), mode="r")[1].abs(), (u * values[..., None, :]) @ v, g.eigvalsh(s), values,
        g.eigh(s)[0], g.eigh(s, UPLO="U")[1].abs(), g.pinv(wide), g.pinv(wide, rtol=1e-9),
        g.solve_triangular(a, b, upper=True), g.matrix_norm(a, "nuc"), g.matrix_norm(a, 2),
        g.solve_triangular(a, b.mT, upper=False, left=False, unitriangular=True),
        g.cond(a), g.matrix_rank(a), g.matrix_power(a, -2), g.svd(wide)[2].detach().abs(),
        g.eigvals(a.detach()).abs().sort()[0], g.inv(a + 0.1j * s).real,
        g.cholesky(s + 0.2j * (x - x.mT)).imag, g.solve(a + 0.1j * s, b + 1j * b).abs(),
    ]  # fmt: skip


def floats(*shape: int) -> Any:
    return torch.randn(*shape)


def below(limit: int, *shape: int) -> Any:
    return torch.randint(0, limit, shape)


FAMILIES = {
    "unary": (unary, lambda: [floats(5, 7)]),
    "binary": (binary, lambda: [floats(4, 6), floats(4, 6)]),
    "integers": (integers, lambda: [floats(4, 6), below(4, 4, 6)]),
    "views": (views, lambda: [floats(4, 6, 2)]),
    "picks": (picks, lambda: [floats(6, 5), below(6, 12), floats(6, 3)]),
    "reductions": (reductions, lambda: [floats(4, 5, 3), below(5, 4)]),
    "products": (products, lambda: [floats(4, 5), floats(5, 6), floats(2, 3, 4), floats(6)]),
    "norms": (norms, lambda: [floats(2, 4, 6), floats(6), floats(6)]),
    "losses": (losses, lambda: [floats(6, 5), floats(6, 5), below(5, 6)]),
    "convolutions": (
        convolutions,
        lambda: [floats(2, 4, 8, 8), floats(4, 4, 3, 3), floats(4), floats(4, 1, 3, 3)],
    ),
    "pools": (pools, lambda: [floats(2, 4, 8, 8), floats(4)]),
    "further pools": (further_pools, lambda: [floats(2, 4, 8, 8), floats(2, 3, 7)]),
    "spectra": (spectra, lambda: [floats(4, 8), floats(4, 8)]),
    "samples": (
        samples,
        lambda: [
            floats(1, 2, 5, 6),
            torch.rand(1, 4, 3, 2) * 2.4 - 1.2,
            floats(5, 3),
            floats(4, 3),
            floats(2, 3, 3),
        ],
    ),
    "bags": (
        bags,
        lambda: [floats(9, 4), floats(8), below(9, 8), torch.tensor([0, 3, 3, 8])],
    ),
    "scatters": (scatters, lambda: [floats(4, 4), floats(4, 4), below(4, 4, 4)]),
    "orders": (orders, lambda: [floats(4, 7), below(5, 4, 7)]),
    "special": (special, lambda: [floats(4, 5), torch.rand(4, 5) * 0.9 + 0.05]),
    "matrices": (
        matrices,
        lambda: [floats(2, 4, n).double() for n in (4, 2)] + [floats(2, 4).double()],
    ),
    "attention": (attention, lambda: [*(floats(2, 2, 5, 8) for _ in range(3)), floats(5, 5)]),
}
