# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Images: vit-pytorch, MONAI, segmentation_models_pytorch, segment-anything, ultralytics, open_clip, kornia."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from zoo.packages.registry import Calls, floats, model, named, register

_CLASSES = {"num_classes": 10}
_PATCHES = {"image_size": 32, "patch_size": 8, **_CLASSES}
_BODY = {"dim": 32, "depth": 2, "heads": 2, "mlp_dim": 48}
_VIT = _PATCHES | _BODY
_FIRST = {"dim": 32, "depth": 2, "cls_depth": 1, "heads": 2, "mlp_dim": 48}

# Of vit_pytorch: a module and a class, the sides of an image, options.
_VITS: list[tuple[str, int, dict[str, Any]]] = [
    ("vit:ViT", 32, _VIT | {"dropout": 0.1, "emb_dropout": 0.1}),
    ("simple_vit:SimpleViT", 32, _VIT),
    ("simple_flash_attn_vit:SimpleViT", 32, _VIT),
    ("deepvit:DeepViT", 32, _VIT),
    ("cait:CaiT", 32, _PATCHES | _FIRST | {"dropout": 0.1, "layer_dropout": 0.05}),
    (
        "t2t:T2TViT",
        64,
        _CLASSES | _BODY | {"image_size": 64, "t2t_layers": ((7, 4), (3, 2), (3, 2))},
    ),
    (
        "cvt:CvT",
        64,
        _CLASSES
        | {
            "s1_emb_dim": 16,
            "s1_depth": 1,
            "s2_emb_dim": 24,
            "s2_heads": 2,
            "s2_depth": 1,
            "s3_emb_dim": 32,
            "s3_heads": 2,
            "s3_depth": 1,
        },
    ),
    ("pit:PiT", 64, _VIT | {"image_size": 64, "depth": (1, 1)}),
    (
        "levit:LeViT",
        64,
        _CLASSES
        | {
            "image_size": 64,
            "stages": 2,
            "dim": (32, 48),
            "depth": 1,
            "heads": (2, 3),
            "mlp_mult": 2,
        },
    ),
    (
        "twins_svt:TwinsSVT",
        224,
        _CLASSES
        | {
            "s1_emb_dim": 8,
            "s2_emb_dim": 16,
            "s3_emb_dim": 24,
            "s4_emb_dim": 32,
            "s3_depth": 1,
        },
    ),
    (
        "max_vit:MaxViT",
        224,
        _CLASSES
        | {
            "dim_conv_stem": 16,
            "dim": 16,
            "dim_head": 8,
            "depth": (1, 1, 1, 1),
            "window_size": 7,
        },
    ),
    (
        "nest:NesT",
        64,
        _CLASSES
        | {
            "image_size": 64,
            "patch_size": 4,
            "dim": 24,
            "heads": 2,
            "num_hierarchies": 3,
            "block_repeats": (1, 1, 1),
        },
    ),
    (
        "mobile_vit:MobileViT",
        64,
        _CLASSES
        | {
            "image_size": (64, 64),
            "dims": [24, 32, 40],
            "channels": [8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 32],
        },
    ),
    ("xcit:XCiT", 32, _PATCHES | _FIRST | {"local_patch_kernel_size": 3}),
    ("parallel_vit:ViT", 32, _VIT),
    ("vit_for_small_dataset:ViT", 32, _VIT),
    ("rvt:RvT", 32, _VIT),
    ("normalized_vit:nViT", 32, _VIT),
    ("simple_vit_with_register_tokens:SimpleViT", 32, _VIT),
    ("simple_vit_with_patch_dropout:SimpleViT", 32, _VIT | {"patch_dropout": 0.25}),
    ("simple_vit_with_fft:SimpleViT", 32, _VIT | {"freq_patch_size": 8}),
    ("simple_vit_with_qk_norm:SimpleViT", 32, _VIT),
    ("simple_vit_with_value_residual:SimpleViT", 32, _VIT),
    (
        "simple_vit_with_hyper_connections:SimpleViT",
        32,
        _VIT | {"num_residual_streams": 2},
    ),
]
for _path, _side, _options in _VITS:
    model(f"vit_pytorch.{_path}", floats(3, _side, _side), **_options)


def _around(kind: str) -> Any:
    """What takes another model apart."""
    encoder = named("vit_pytorch:ViT")(**_VIT)
    return named(f"vit_pytorch.{kind.lower()}:{kind}")(encoder)


for _name in ("Extractor", "Recorder"):
    register(f"vit_pytorch.{_name}", functools.partial(_around, _name), floats(3, 32, 32))  # fmt: skip

for _name in ("Unet", "FPN", "PSPNet", "DeepLabV3Plus", "Linknet", "MAnet", "PAN"):
    model(f"segmentation_models_pytorch:{_name}", floats(3, 128, 128), encoder_name="resnet18", encoder_weights=None, classes=2)  # fmt: skip

_FLAT = {"spatial_dims": 2, "in_channels": 1, "out_channels": 2}
_NETS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "UNet": (
        (1, 32, 32),
        _FLAT | {"channels": (8, 16, 32), "strides": (2, 2), "num_res_units": 1},
    ),
    "BasicUNet": ((1, 32, 32), _FLAT | {"features": (8, 8, 16, 16, 32, 8)}),
    "AttentionUnet": (
        (1, 32, 32),
        _FLAT | {"channels": (8, 16, 32), "strides": (2, 2)},
    ),
    "SegResNet": ((1, 32, 32), _FLAT | {"init_filters": 8}),
    "DynUNet": (
        (1, 32, 32),
        _FLAT
        | {
            "kernel_size": [3, 3, 3],
            "strides": [1, 2, 2],
            "upsample_kernel_size": [2, 2],
            "filters": [8, 16, 32],
        },
    ),
    "VNet": ((1, 32, 32), _FLAT),
    "UNETR": (
        (1, 32, 32),
        _FLAT
        | {
            "img_size": 32,
            "feature_size": 8,
            "hidden_size": 24,
            "mlp_dim": 32,
            "num_heads": 2,
        },
    ),
    "SwinUNETR": (
        (1, 64, 64),
        _FLAT | {"feature_size": 12, "depths": (2, 2, 2, 2), "num_heads": (2, 2, 2, 2)},
    ),
    "DenseNet121": ((1, 64, 64), _FLAT),
    "HighResNet": ((1, 24, 24), _FLAT),
    "ViT": (
        (1, 32, 32),
        {
            "in_channels": 1,
            "img_size": (32, 32),
            "patch_size": (8, 8),
            "hidden_size": 24,
            "mlp_dim": 32,
            "num_layers": 2,
            "num_heads": 2,
            "spatial_dims": 2,
            "classification": True,
        },
    ),
    "MedNeXtS": ((1, 32, 32), _FLAT),
}
for _name, (_shape, _options) in _NETS.items():
    model(f"monai.networks.nets:{_name}", floats(*_shape), **_options)


def _against_labels(path: str, **options: Any) -> Callable[[], Any]:
    return lambda: Calls(lambda loss, x: loss(x, (x > 0).float()), named(path)(**options))  # fmt: skip


for _name in ("DiceLoss", "DiceCELoss", "TverskyLoss", "FocalLoss", "GeneralizedDiceLoss"):  # fmt: skip
    register(f"monai.losses.{_name}", _against_labels(f"monai.losses:{_name}", **({} if _name == "FocalLoss" else {"sigmoid": True})), floats(2, 16, 16))  # fmt: skip


def _promptable() -> Any:
    """The image encoder of segment-anything."""
    return named("segment_anything.modeling:ImageEncoderViT")(img_size=64, patch_size=8, embed_dim=32, depth=2, num_heads=2, out_chans=16, use_rel_pos=True, window_size=4, global_attn_indexes=(1,))  # fmt: skip


register("segment_anything.encoder", _promptable, floats(3, 64, 64))


def _yolo(name: str) -> Any:
    return named("ultralytics.nn.tasks:DetectionModel")(f"{name}.yaml", nc=4, verbose=False)  # fmt: skip


for _name in ("yolov8n", "yolo11n", "yolov5n"):
    register(f"ultralytics.{_name}", functools.partial(_yolo, _name), floats(3, 64, 64))


def _clip() -> Any:
    clip = named("open_clip.model:__dict__")
    image = clip["CLIPVisionCfg"](layers=2, width=64, patch_size=8, image_size=32, head_width=32)  # fmt: skip
    text = clip["CLIPTextCfg"](context_length=16, vocab_size=64, width=64, heads=2, layers=2)  # fmt: skip
    return clip["CLIP"](32, image, text)


register("open_clip.CLIP", _clip, lambda g, n: (torch.randn(n, 3, 32, 32, generator=g), torch.randint(1, 64, (n, 16), generator=g)))  # fmt: skip

_KORNIA: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "gaussian": lambda k, x: k.filters.gaussian_blur2d(x, (3, 3), (1.5, 1.5)),
    "sobel": lambda k, x: k.filters.sobel(x),
    "canny": lambda k, x: k.filters.canny(x)[0],
    "bilateral": lambda k, x: k.filters.bilateral_blur(x, (3, 3), 0.1, (1.5, 1.5)),
    "median": lambda k, x: k.filters.median_blur(x, (3, 3)),
    "hsv": lambda k, x: k.color.rgb_to_hsv(x),
    "lab": lambda k, x: k.color.rgb_to_lab(x),
    "rotate": lambda k, x: k.geometry.rotate(x, torch.full(x.shape[:1], 10.0)),
    "pyramid": lambda k, x: k.geometry.build_pyramid(x, 3),
    "ssim": lambda k, x: k.losses.ssim_loss(x, x * 0.9, 5),
    "focal": lambda k, x: k.losses.focal_loss(x, (x[:, 0] > 0.5).long(), 0.5),
    "equalize": lambda k, x: k.enhance.equalize(x),
    "harris": lambda k, x: k.feature.harris_response(x[:, :1]),
    "quaternion": lambda k, x: k.geometry.quaternion_to_rotation_matrix(x[:, 0, 0, :4]),
}


def _kornia(function: Callable[[Any, torch.Tensor], Any]) -> Any:
    kornia = importlib.import_module("kornia")
    return Calls(lambda x: function(kornia, x))


for _name, _function in _KORNIA.items():
    register(f"kornia.{_name}", functools.partial(_kornia, _function), lambda g, n: (torch.rand(n, 3, 24, 24, generator=g),))  # fmt: skip


def _augmented() -> nn.Module:
    random = named("kornia:augmentation")
    return random.AugmentationSequential(random.RandomHorizontalFlip(p=0.5), random.ColorJitter(0.1, 0.1, 0.1, 0.1, p=1.0), random.RandomAffine(10.0, p=1.0), data_keys=["input"])  # fmt: skip


register("kornia.augmentation", _augmented, floats(3, 24, 24))
model("efficientnet_pytorch:EfficientNet.from_name", floats(3, 64, 64), "efficientnet-b0", num_classes=5)  # fmt: skip
