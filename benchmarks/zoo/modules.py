# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.nn: recurrent layers, attention, losses, norms, pooling, activations, padding."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from zoo import Inputs, Program, generator

Maker = Callable[[torch.Generator, int], tuple[Any, ...]]
_programs: list[Program] = []


def module(name: str, make: Callable[[], Any], args: Maker, **kwargs: Any) -> None:
    def build() -> tuple[Any, Inputs]:
        torch.manual_seed(0)
        f = make()
        if isinstance(f, nn.Module):
            f.eval()

        def inputs(which: str) -> Any:
            n = 5 if which == "shape" else 3
            return args(generator(which), n), dict(kwargs)

        return f, inputs

    _programs.append(Program(f"nn.{name}", "modules", build))


def rand(*shape: Any, positive: bool = False) -> Maker:
    """A tensor whose "n" is the number that changes with the shape."""

    def args(g: torch.Generator, n: int) -> tuple[Any, ...]:
        size = tuple(n if s == "n" else s for s in shape)
        return ((torch.rand if positive else torch.randn)(size, generator=g),)

    return args


def together(*makers: Maker) -> Maker:
    return lambda g, n: tuple(a for m in makers for a in m(g, n))


def classes(high: int, *shape: Any) -> Maker:
    def args(g: torch.Generator, n: int) -> tuple[Any, ...]:
        size = tuple(n if s == "n" else s for s in shape)
        return (torch.randint(0, high, size, generator=g),)

    return args


def _recurrent() -> None:
    for cls in (nn.LSTM, nn.GRU, nn.RNN):
        word = cls.__name__
        for label, options in {
            "": {},
            "-2-layers": {"num_layers": 2},
            "-bidirectional": {"bidirectional": True, "num_layers": 2},
            "-batch-first": {"batch_first": True},
            "-no-bias": {"bias": False},
        }.items():
            make = functools.partial(cls, 8, 16, **options)
            module(word + label, make, rand(7, "n", 8))
        module(word + "-unbatched", functools.partial(cls, 8, 16), rand("n", 8))
    module("LSTM-projection", lambda: nn.LSTM(8, 16, proj_size=4), rand(7, "n", 8))
    state = together(rand(7, "n", 8), lambda g, n: ((torch.zeros(1, n, 16),) * 2,))
    module("LSTM-state", lambda: nn.LSTM(8, 16), state)
    module(
        "GRU-state", lambda: nn.GRU(8, 16), together(rand(7, "n", 8), rand(1, "n", 16))
    )
    module("LSTMCell", lambda: nn.LSTMCell(8, 16), rand("n", 8))
    module("GRUCell", lambda: nn.GRUCell(8, 16), rand("n", 8))
    module("RNNCell", lambda: nn.RNNCell(8, 16), rand("n", 8))

    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(8, 16, batch_first=True)

        def forward(self, x: Any) -> Any:
            lengths = [x.shape[1]] * (x.shape[0] - 1) + [2]
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
            out, _ = self.rnn(packed)
            return nn.utils.rnn.pad_packed_sequence(out, batch_first=True)

    module("LSTM-packed", Packed, rand("n", 7, 8))


def _attention() -> None:
    x = rand("n", 6, 16)
    three = lambda g, n: (torch.randn(n, 6, 16, generator=g),) * 3
    mha = functools.partial(nn.MultiheadAttention, 16, 4, batch_first=True)
    module("MultiheadAttention", mha, three)
    module("MultiheadAttention-no-weights", mha, three, need_weights=False)
    module(
        "MultiheadAttention-mask", mha, three, attn_mask=torch.ones(6, 6).tril() == 0
    )
    module("MultiheadAttention-seq-first", lambda: nn.MultiheadAttention(16, 4), three)
    layer = functools.partial(nn.TransformerEncoderLayer, 16, 4, 32, batch_first=True)
    module("TransformerEncoderLayer", layer, x)
    module("TransformerEncoderLayer-norm-first", lambda: layer(norm_first=True), x)
    module("TransformerEncoderLayer-train", lambda: Training(layer(dropout=0.0)), x)
    module("TransformerEncoder", lambda: nn.TransformerEncoder(layer(), 2), x)
    padded = together(x, lambda g, n: (None, torch.arange(6).repeat(n, 1) >= 4))
    module(
        "TransformerEncoder-padding", lambda: nn.TransformerEncoder(layer(), 2), padded
    )
    decoder = functools.partial(nn.TransformerDecoderLayer, 16, 4, 32, batch_first=True)
    module("TransformerDecoderLayer", decoder, together(x, rand("n", 4, 16)))
    module(
        "TransformerDecoder",
        lambda: nn.TransformerDecoder(decoder(), 2),
        together(x, x),
    )
    whole = lambda: nn.Transformer(16, 4, 1, 1, 32, batch_first=True)
    module("Transformer", whole, together(x, rand("n", 4, 16)))

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = whole()

        def forward(self, x: Any, y: Any) -> Any:
            mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1])
            return self.inner(x, y, tgt_mask=mask, tgt_is_causal=True)

    module("Transformer-causal", Masked, together(x, rand("n", 4, 16)))


class Training(nn.Module):
    """Keeps its inner module in training mode."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def train(self, mode: bool = True) -> Training:
        self.inner.train(True)
        return self

    def forward(self, *args: Any) -> Any:
        return self.inner(*args)


def _losses() -> None:
    pair = together(rand("n", 6), rand("n", 6))
    unit = together(rand("n", 6, positive=True), rand("n", 6, positive=True))
    one = rand("n", 6, positive=True)
    signs = lambda g, n: (torch.randint(0, 2, (n,), generator=g) * 2 - 1,)
    for cls in (nn.L1Loss, nn.MSELoss, nn.SmoothL1Loss, nn.HuberLoss):
        for how in ("mean", "sum", "none"):
            module(f"{cls.__name__}-{how}", functools.partial(cls, reduction=how), pair)
    module(
        "CrossEntropyLoss", nn.CrossEntropyLoss, together(rand("n", 6), classes(6, "n"))
    )
    smooth = functools.partial(nn.CrossEntropyLoss, label_smoothing=0.1, ignore_index=2)
    module("CrossEntropyLoss-smooth", smooth, together(rand("n", 6), classes(6, "n")))
    weighted = lambda: nn.CrossEntropyLoss(weight=torch.arange(1.0, 7.0))
    images = together(rand("n", 6, 4, 4), classes(6, "n", 4, 4))
    module("CrossEntropyLoss-weights-images", weighted, images)
    module("CrossEntropyLoss-probabilities", nn.CrossEntropyLoss, unit)
    logs = lambda g, n: (torch.randn(n, 6, generator=g).log_softmax(-1),)
    module("NLLLoss", nn.NLLLoss, together(logs, classes(6, "n")))
    module(
        "KLDivLoss", lambda: nn.KLDivLoss(reduction="batchmean"), together(logs, one)
    )
    module("BCELoss", nn.BCELoss, unit)
    module("BCEWithLogitsLoss", nn.BCEWithLogitsLoss, unit)
    module("PoissonNLLLoss", nn.PoissonNLLLoss, unit)
    module(
        "GaussianNLLLoss",
        nn.GaussianNLLLoss,
        together(pair, rand("n", 6, positive=True)),
    )
    module("SoftMarginLoss", nn.SoftMarginLoss, together(rand("n"), signs))
    module("HingeEmbeddingLoss", nn.HingeEmbeddingLoss, together(rand("n"), signs))
    three = together(rand("n"), rand("n"), signs)
    module("MarginRankingLoss", nn.MarginRankingLoss, three)
    module("CosineEmbeddingLoss", nn.CosineEmbeddingLoss, together(pair, signs))
    module("TripletMarginLoss", nn.TripletMarginLoss, together(pair, rand("n", 6)))
    distance = nn.TripletMarginWithDistanceLoss
    module("TripletMarginWithDistanceLoss", distance, together(pair, rand("n", 6)))
    module(
        "MultiMarginLoss", nn.MultiMarginLoss, together(rand("n", 6), classes(6, "n"))
    )
    several = together(rand("n", 6), classes(2, "n", 6))
    module("MultiLabelMarginLoss", nn.MultiLabelMarginLoss, several)
    module("MultiLabelSoftMarginLoss", nn.MultiLabelSoftMarginLoss, several)

    def ctc(g: torch.Generator, n: int) -> tuple[Any, ...]:
        scores = torch.randn(12, n, 6, generator=g).log_softmax(-1)
        targets = torch.randint(1, 6, (n, 4), generator=g)
        return scores, targets, torch.full((n,), 12), torch.full((n,), 4)

    module("CTCLoss", nn.CTCLoss, ctc)
    adaptive = lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10])
    module(
        "AdaptiveLogSoftmaxWithLoss", adaptive, together(rand("n", 8), classes(20, "n"))
    )


def _norms() -> None:
    image = rand("n", 8, 6, 6)
    module("BatchNorm1d", lambda: nn.BatchNorm1d(8), rand("n", 8))
    module("BatchNorm2d", lambda: nn.BatchNorm2d(8), image)
    module("BatchNorm3d", lambda: nn.BatchNorm3d(8), rand("n", 8, 4, 4, 4))
    module("BatchNorm2d-train", lambda: Training(nn.BatchNorm2d(8)), image)
    plain = lambda: nn.BatchNorm2d(8, track_running_stats=False)
    module("BatchNorm2d-no-statistics", plain, image)
    module("GroupNorm", lambda: nn.GroupNorm(4, 8), image)
    module("InstanceNorm1d", lambda: nn.InstanceNorm1d(8), rand("n", 8, 6))
    module("InstanceNorm2d", lambda: nn.InstanceNorm2d(8, affine=True), image)
    tracked = lambda: nn.InstanceNorm2d(8, track_running_stats=True)
    module("InstanceNorm2d-tracked", tracked, image)
    module("LayerNorm", lambda: nn.LayerNorm([8, 6, 6]), image)
    module("LayerNorm-plain", lambda: nn.LayerNorm(6, elementwise_affine=False), image)
    module("RMSNorm", lambda: nn.RMSNorm(6), image)
    module("LocalResponseNorm", lambda: nn.LocalResponseNorm(3), image)
    module("CrossMapLRN2d", lambda: nn.CrossMapLRN2d(3), image)
    weight = lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 4))
    module("weight_norm", weight, rand("n", 8))
    spectral = lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 4))
    module("spectral_norm", spectral, rand("n", 8))
    old = lambda: nn.utils.spectral_norm(nn.Linear(8, 4))
    module("spectral_norm-hook", old, rand("n", 8))
    orthogonal = lambda: nn.utils.parametrizations.orthogonal(nn.Linear(8, 8))
    module("orthogonal", orthogonal, rand("n", 8))


def _pools() -> None:
    shapes = {1: ("n", 4, 16), 2: ("n", 4, 12, 12), 3: ("n", 4, 8, 8, 8)}
    for dims, shape in shapes.items():
        for word in ("Max", "Avg"):
            cls = getattr(nn, f"{word}Pool{dims}d")
            module(f"{cls.__name__}", functools.partial(cls, 3, 2, 1), rand(*shape))
            ceil = functools.partial(cls, 3, 2, ceil_mode=True)
            module(f"{cls.__name__}-ceil", ceil, rand(*shape))
            adaptive = getattr(nn, f"Adaptive{word}Pool{dims}d")
            module(adaptive.__name__, functools.partial(adaptive, 3), rand(*shape))
        indices = functools.partial(
            getattr(nn, f"MaxPool{dims}d"), 2, return_indices=True
        )
        module(f"MaxPool{dims}d-indices", indices, rand(*shape))
    module("LPPool1d", lambda: nn.LPPool1d(2, 3), rand(*shapes[1]))
    module("LPPool2d", lambda: nn.LPPool2d(2, 3), rand(*shapes[2]))
    fractional = lambda: nn.FractionalMaxPool2d(2, output_size=5)
    module("FractionalMaxPool2d", fractional, rand(*shapes[2]))

    class Unpool(nn.Module):
        def forward(self, x: Any) -> Any:
            y, at = nn.functional.max_pool2d(x, 2, return_indices=True)
            return nn.functional.max_unpool2d(y, at, 2)

    module("MaxUnpool2d", Unpool, rand(*shapes[2]))


def _activations() -> None:
    special = {
        nn.MultiheadAttention: None,
        nn.Threshold: (0.1, 2.0),
        nn.Softmax2d: None,
        nn.Softmax: (-1,),
        nn.Softmin: (-1,),
        nn.LogSoftmax: (-1,),
    }
    for name in nn.modules.activation.__all__:
        cls = getattr(nn, name)
        options = special.get(cls, ())
        if options is None:
            continue
        module(name, functools.partial(cls, *options), rand("n", 8))
        if "inplace" in inspect.signature(cls.__init__).parameters:
            inplace = functools.partial(cls, *options, inplace=True)
            module(f"{name}-inplace", inplace, rand("n", 8))
    module("Softmax2d", nn.Softmax2d, rand("n", 4, 5, 5))
    module("GELU-tanh", lambda: nn.GELU(approximate="tanh"), rand("n", 8))


def _layers() -> None:
    image = rand("n", 4, 9, 9)
    for dims, shape in {1: (16,), 2: (9, 9), 3: (5, 5, 5)}.items():
        conv = getattr(nn, f"Conv{dims}d")
        back = getattr(nn, f"ConvTranspose{dims}d")
        module(conv.__name__, functools.partial(conv, 4, 8, 3), rand("n", 4, *shape))
        grouped = functools.partial(conv, 4, 8, 3, groups=2, dilation=2, padding="same")
        module(f"{conv.__name__}-grouped", grouped, rand("n", 4, *shape))
        circular = functools.partial(conv, 4, 8, 3, padding=1, padding_mode="circular")
        module(f"{conv.__name__}-circular", circular, rand("n", 4, *shape))
        module(back.__name__, functools.partial(back, 4, 8, 3, 2), rand("n", 4, *shape))
        for word in ("Zero", "Constant", "Reflection", "Replication", "Circular"):
            pad = getattr(nn, f"{word}Pad{dims}d", None)
            if pad is not None:
                extra = (1.5,) if word == "Constant" else ()
                module(
                    pad.__name__,
                    functools.partial(pad, 1, *extra),
                    rand("n", 4, *shape),
                )
    module("Linear", lambda: nn.Linear(8, 4), rand("n", 8))
    two = together(rand("n", 8), rand("n", 6))
    module("Bilinear", lambda: nn.Bilinear(8, 6, 4), two)
    module("Embedding", lambda: nn.Embedding(20, 8, padding_idx=0), classes(20, "n", 5))
    renormed = lambda: nn.Embedding(20, 8, max_norm=1.0)
    module("Embedding-max-norm", renormed, classes(20, "n", 5))
    for mode in ("sum", "mean", "max"):
        bag = functools.partial(nn.EmbeddingBag, 20, 8, mode=mode)
        module(f"EmbeddingBag-{mode}", bag, classes(20, "n", 5))
    module(
        "CosineSimilarity", nn.CosineSimilarity, together(rand("n", 8), rand("n", 8))
    )
    module(
        "PairwiseDistance", nn.PairwiseDistance, together(rand("n", 8), rand("n", 8))
    )
    module("PixelShuffle", lambda: nn.PixelShuffle(2), rand("n", 8, 5, 5))
    module("PixelUnshuffle", lambda: nn.PixelUnshuffle(2), rand("n", 2, 6, 6))
    module("ChannelShuffle", lambda: nn.ChannelShuffle(2), image)
    module("Unfold", lambda: nn.Unfold(3), image)
    module("Fold", lambda: nn.Fold((6, 6), 3), rand("n", 36, 16))
    module("Flatten", nn.Flatten, image)
    module("Unflatten", lambda: nn.Unflatten(1, (2, 2)), image)
    for mode in ("nearest", "bilinear", "bicubic", "area", "nearest-exact"):
        up = functools.partial(nn.Upsample, scale_factor=2, mode=mode)
        module(f"Upsample-{mode}", up, image)
    corners = lambda: nn.Upsample(size=(7, 5), mode="bilinear", align_corners=True)
    module("Upsample-corners", corners, image)
    for cls in (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout):
        module(
            f"{cls.__name__}-eval", cls, image if "2" in cls.__name__ else rand("n", 8)
        )
    module("Dropout-train", lambda: Training(nn.Dropout(0.5)), rand("n", 8))
    module("Dropout2d-train", lambda: Training(nn.Dropout2d(0.5)), image)

    class Dicts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleDict({"a": nn.Linear(8, 8), "b": nn.Linear(8, 8)})
            self.list = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
            self.values = nn.ParameterDict({"s": nn.Parameter(torch.ones(8))})
            self.more = nn.ParameterList([nn.Parameter(torch.ones(8))])

        def forward(self, x: Any, which: str = "a") -> Any:
            x = self.layers[which](x)
            for i, layer in enumerate(self.list):
                x = layer(x) + i
            for layer in self.list[1:]:
                x = layer(x)
            for key, layer in self.layers.items():
                x = layer(x) * len(key)
            return {k: x * v for k, v in self.values.items()}, x * self.more[0]

    module("containers", Dicts, rand("n", 8))

    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.LazyLinear(4)
            self.inner(torch.zeros(1, 8))

        def forward(self, x: Any) -> Any:
            return self.inner(x)

    module("LazyLinear", Lazy, rand("n", 8))


def programs() -> list[Program]:
    if not _programs:
        for part in (
            _recurrent,
            _attention,
            _losses,
            _norms,
            _pools,
            _activations,
            _layers,
        ):
            part()
    return list(_programs)
