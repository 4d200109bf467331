# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inference: a convolutional network on batches of several sizes.

.venv/bin/python examples/classification.py
"""

import pyjit
import torch
import torchvision


def main() -> None:
    torch.manual_seed(0)
    model = torchvision.models.resnet18().eval()
    fast = pyjit.compile(model)
    with torch.no_grad():
        # The second size makes the batch a symbol; from then on one graph answers for all sizes.
        for batch in (2, 3, 4, 5):
            images = torch.randn(batch, 3, 64, 64)
            scores = fast(images)
            torch.testing.assert_close(scores, model(images), rtol=1e-3, atol=1e-4)
            print(f"{batch} image(s): classes {scores.argmax(1).tolist()}")
    print(pyjit.explain(fast))
    assert pyjit.stats(fast).graphs == 2


if __name__ == "__main__":
    main()
