# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generation: a small decoder with a key-value cache that each step writes one position of.

.venv/bin/python examples/generation.py
"""

import pyjit
import torch
from torch import nn
from torch.nn import functional as F

WORDS, WIDTH, HEADS, LONGEST = 100, 64, 4, 32


class Layer(nn.Module):
    """Attention to all earlier positions, and a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(
        self, x: torch.Tensor, cache: torch.Tensor, position: torch.Tensor
    ) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).view(1, 1, 3, HEADS, -1).unbind(2)
        cache[0].index_copy_(2, position, k.transpose(1, 2))
        cache[1].index_copy_(2, position, v.transpose(1, 2))
        seen = torch.arange(LONGEST) <= position
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2), cache[0], cache[1], attn_mask=seen.view(1, 1, 1, -1)
        )
        x = x + self.out(y.transpose(1, 2).reshape(1, 1, WIDTH))
        return x + self.mlp(self.after(x))


class Decoder(nn.Module):
    """The next word's scores, given one word and the caches of all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(LONGEST, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(
        self, word: torch.Tensor, caches: list[torch.Tensor], position: torch.Tensor
    ) -> torch.Tensor:
        x = (self.words(word) + self.places(position)).unsqueeze(0)
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cache, position)
        return self.head(x)[0, -1]


def generate(step: nn.Module, first: int, length: int) -> list[int]:
    """The likeliest words, one after the other."""
    caches = [torch.zeros(2, 1, HEADS, LONGEST, WIDTH // HEADS) for _ in range(2)]
    words = [first]
    for position in range(length):
        scores = step(torch.tensor([words[-1]]), caches, torch.tensor([position]))
        words.append(int(scores.argmax()))
    return words


def main() -> None:
    torch.manual_seed(0)
    model = Decoder().eval()
    fast = pyjit.compile(model)
    with torch.no_grad():
        words = generate(fast, 7, 20)
        assert words == generate(model, 7, 20)
    print(*words)
    print(pyjit.explain(fast))
    assert pyjit.stats(fast).hits > 15


if __name__ == "__main__":
    main()
