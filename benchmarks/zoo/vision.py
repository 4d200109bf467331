# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torchvision: every classification model, some of segmentation, detection and video."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from zoo import Inputs, Program, generator, images

FIXED = {"maxvit_t": 224}
SIZES = {"inception_v3": 96, "googlenet": 64}
TRAINED = {"inception_v3": 299}
"""Sizes in training mode: auxiliary classifiers want more of an image."""


def settle(model: nn.Module) -> nn.Module:
    """Gives batch norms statistics that a trained network could have."""
    numbers = torch.Generator().manual_seed(7)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if module.running_mean is None:
                continue
            shape = module.running_mean.shape
            module.running_mean.copy_(torch.randn(shape, generator=numbers) * 0.1)
            module.running_var.copy_(torch.rand(shape, generator=numbers) + 0.5)
    return model.eval()


def _classifier(name: str, batch: int = 1) -> tuple[Any, Inputs]:
    from torchvision import models

    sized = functools.partial(images, batch=batch)
    if name in FIXED:
        size = FIXED[name]
        return settle(models.get_model(name, weights=None)), sized(size, None)
    if name == "vit_h_14":  # 632 M parameters: two narrow layers instead
        model = models.VisionTransformer(56, 14, 2, 4, 64, 128)
        return model.eval(), sized(56, None)
    if name.startswith("vit_"):
        size = 64
        model = models.get_model(name, weights=None, image_size=size)
        return model.eval(), sized(size, None)
    if name == "regnet_y_128gf":  # 645 M parameters: narrower
        from torchvision.models.regnet import BlockParams, RegNet

        params = BlockParams.from_init_params(
            depth=27, w_0=48, w_a=16.0, w_m=2.52, group_width=24, se_ratio=0.25
        )
        return settle(RegNet(params)), sized(64, 96)
    extra: dict[str, Any] = {}
    if name in ("googlenet", "inception_v3"):
        extra["init_weights"] = False
    size = (SIZES if batch == 1 else SIZES | TRAINED).get(name, 64)
    model = settle(models.get_model(name, weights=None, **extra))
    return model, sized(size, size + 32)


def _segmenter(name: str, batch: int = 1) -> tuple[Any, Inputs]:
    from torchvision import models

    model = models.get_model(name, weights=None, weights_backbone=None, num_classes=5)
    return settle(model), images(64, 96, batch=batch)


def _targets(name: str, side: int, which: str) -> list[dict[str, Any]]:
    """What is to be found in two images: an object in the one, two in the other."""
    found = []
    for count in (1, 2):
        corner = torch.rand(count, 2, generator=generator(which)) * side / 3
        target: dict[str, Any] = {
            "boxes": torch.cat([corner, corner + side / 2], 1),
            "labels": torch.arange(1, count + 1),
        }
        if name.startswith("maskrcnn"):
            masks = torch.zeros(count, side, side, dtype=torch.uint8)
            masks[:, side // 3 : side // 2, side // 3 : side // 2] = 1
            target["masks"] = masks
        if name.startswith("keypointrcnn"):
            middle = (corner + side / 4)[:, None].expand(count, 17, 2)
            target["keypoints"] = torch.cat([middle, torch.ones(count, 17, 1)], 2)
        found.append(target)
    return found


def _detector(name: str, trained: bool = False) -> tuple[Any, Inputs]:
    from torchvision import models

    extra: dict[str, Any] = {}
    if not name.startswith("ssd"):
        extra = {"min_size": 96, "max_size": 160}
    model = models.get_model(
        name, weights=None, weights_backbone=None, num_classes=4, **extra
    )

    def inputs(which: str) -> Any:
        side = 128 if which == "shape" else 96
        numbers = generator(which)
        if trained:
            pair = [torch.rand(3, side, side, generator=numbers) for _ in range(2)]
            return (pair, _targets(name, side, which)), {}
        return ([torch.rand(3, side, side, generator=numbers)],), {}

    return settle(model), inputs


def _video(name: str, batch: int = 1) -> tuple[Any, Inputs]:
    from torchvision import models

    if name.startswith("mvit"):

        def fixed(which: str) -> Any:
            count = batch + 1 if which == "shape" else batch
            shape = (count, 3, 16, 64, 64)
            return (torch.randn(shape, generator=generator(which)),), {}

        from torchvision.models.video import mvit

        builder = getattr(mvit, name)
        original = mvit._mvit

        def smaller(block_setting: Any, **kwargs: Any) -> Any:
            return original(block_setting, **{**kwargs, "spatial_size": (64, 64)})

        mvit._mvit = smaller
        try:
            model = builder(weights=None)
        finally:
            mvit._mvit = original
        return settle(model), fixed
    model = models.get_model(name, weights=None)
    if name == "s3d":

        def longer(which: str) -> Any:
            side = 256 if which == "shape" else 224
            shape = (batch, 3, 16, side, side)
            return (torch.randn(shape, generator=generator(which)),), {}

        return settle(model), longer
    return settle(model), images(64, 96, batch=batch, dims=3)


def _raft() -> tuple[Any, Inputs]:
    from torchvision import models

    model = settle(models.get_model("raft_small", weights=None))

    def inputs(which: str) -> Any:
        side = 136 if which == "shape" else 128
        numbers = generator(which)
        pair = [torch.rand(1, 3, 128, side, generator=numbers) for _ in range(2)]
        return tuple(pair), {"num_flow_updates": 2}

    return model, inputs


SEGMENTERS = ("deeplabv3_mobilenet_v3_large", "deeplabv3_resnet50", "fcn_resnet50")
SEGMENTERS += ("lraspp_mobilenet_v3_large",)
DETECTORS = ("fasterrcnn_mobilenet_v3_large_320_fpn", "fasterrcnn_resnet50_fpn")
DETECTORS += ("fcos_resnet50_fpn", "keypointrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn")
DETECTORS += ("retinanet_resnet50_fpn", "ssd300_vgg16", "ssdlite320_mobilenet_v3_large")
VIDEO = ("mc3_18", "mvit_v1_b", "mvit_v2_s", "r2plus1d_18", "r3d_18", "s3d", "swin3d_t")


def programs() -> list[Program]:
    from torchvision import models

    out = []
    training: dict[str, Any]
    for names, make, training in (
        (models.list_models(module=models), _classifier, {"batch": 2}),
        (SEGMENTERS, _segmenter, {"batch": 2}),
        (DETECTORS, _detector, {"trained": True}),
        (VIDEO, _video, {"batch": 2}),
    ):
        for name in names:
            plain = functools.partial(make, name)
            trained = functools.partial(make, name, **training)
            out.append(Program(f"tv.{name}", "torchvision", plain, training=trained))
    out.append(Program("tv.raft_small", "torchvision", _raft))
    return out
