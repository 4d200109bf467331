# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models and schedulers of diffusers, and denoising by hand."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from zoo import Kwargs
from zoo.packages.registry import Calls, Given, floats, model, named, register

BLOCKS = {"block_out_channels": (16, 32), "norm_num_groups": 8}
CODER = BLOCKS | {
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
}
UNET = BLOCKS | {
    "sample_size": 16,
    "layers_per_block": 1,
    "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
    "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
}
CONDITIONED = UNET | {
    "in_channels": 4,
    "out_channels": 4,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "cross_attention_dim": 16,
    "attention_head_dim": 4,
}


def _latents(*more: tuple[int, ...], **named_ones: Any) -> Given:
    """Latent images, a time, further tensors of those shapes; what else is given by name."""

    def given(g: torch.Generator, n: int) -> tuple[Any, ...]:
        rest = (torch.randn(n, *shape, generator=g) for shape in more)
        time = torch.randint(0, 1000, (n,), generator=g)
        return torch.randn(n, 4, 16, 16, generator=g), time, *rest, Kwargs(named_ones)

    return given


model("diffusers:UNet2DConditionModel", _latents((7, 16), return_dict=False), **CONDITIONED)  # fmt: skip
model("diffusers:UNet2DConditionModel", _latents((7, 16)), name="dict", **CONDITIONED)
model("diffusers:UNet2DModel", _latents(), in_channels=4, out_channels=4, **UNET)
model("diffusers:AutoencoderKL", floats(3, 32, 32), **CODER)
model("diffusers:VQModel", floats(3, 32, 32), latent_channels=3, **CODER)
model("diffusers:DiTTransformer2DModel", lambda g, n: (torch.randn(n, 4, 16, 16, generator=g), Kwargs(timestep=torch.randint(0, 1000, (n,), generator=g), class_labels=torch.randint(0, 9, (n,), generator=g))), num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=2, sample_size=16, norm_num_groups=4)  # fmt: skip
model("diffusers:SD3Transformer2DModel", lambda g, n: (torch.randn(n, 4, 16, 16, generator=g), torch.randn(n, 7, 16, generator=g), torch.randn(n, 16, generator=g), torch.rand(n, generator=g)), sample_size=16, patch_size=2, in_channels=4, num_layers=1, attention_head_dim=8, num_attention_heads=2, joint_attention_dim=16, caption_projection_dim=16, pooled_projection_dim=16, out_channels=4)  # fmt: skip
model("diffusers:FluxTransformer2DModel", lambda g, n: (Kwargs(hidden_states=torch.randn(n, 16, 4, generator=g), encoder_hidden_states=torch.randn(n, 7, 16, generator=g), pooled_projections=torch.randn(n, 16, generator=g), timestep=torch.rand(n, generator=g), img_ids=torch.zeros(16, 3), txt_ids=torch.zeros(7, 3)),), patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=16, pooled_projection_dim=16, axes_dims_rope=(4, 4, 8))  # fmt: skip
model("diffusers:PixArtTransformer2DModel", lambda g, n: (torch.randn(n, 4, 16, 16, generator=g), torch.randn(n, 7, 16, generator=g), torch.randint(0, 9, (n,), generator=g), {"resolution": None, "aspect_ratio": None}), num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=1, cross_attention_dim=16, sample_size=16, caption_channels=16, norm_num_groups=4)  # fmt: skip
model("diffusers:ControlNetModel", lambda g, n: (torch.randn(n, 4, 16, 16, generator=g), torch.randint(0, 9, (n,), generator=g), torch.randn(n, 7, 16, generator=g), torch.randn(n, 3, 32, 32, generator=g)), block_out_channels=(16, 32), layers_per_block=1, in_channels=4, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), cross_attention_dim=16, norm_num_groups=8, attention_head_dim=4, conditioning_embedding_out_channels=(8, 16))  # fmt: skip


class _Loop(nn.Module):
    """Four steps of a scheduler, as its page shows them."""

    def __init__(self, scheduler: str) -> None:
        super().__init__()
        self.model = named("diffusers:UNet2DModel")(**UNET)
        self.scheduler = named(f"diffusers:{scheduler}")()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.scheduler.set_timesteps(4)
        for t in self.scheduler.timesteps:
            given = self.scheduler.scale_model_input(x, t)
            noise = self.model(given, t).sample
            x = self.scheduler.step(noise, t, x).prev_sample
        return x


for _name in ("DDIM", "DDPM", "EulerDiscrete", "DPMSolverMultistep", "PNDM", "LCM"):
    _make = functools.partial(_Loop, f"{_name}Scheduler")
    register(f"diffusers.loop {_name}", _make, floats(3, 16, 16))


def _noised() -> Any:
    scheduler = named("diffusers:DDPMScheduler")()

    def loss(m: Any, x: torch.Tensor, noise: torch.Tensor, t: torch.Tensor) -> Any:
        seen = m(scheduler.add_noise(x, noise, t), t, return_dict=False)[0]
        return nn.functional.mse_loss(seen, noise)

    return Calls(loss, named("diffusers:UNet2DModel")(**UNET))


register("diffusers.loss", _noised, lambda g, n: (torch.randn(n, 3, 16, 16, generator=g), torch.randn(n, 3, 16, 16, generator=g), torch.randint(0, 1000, (n,), generator=g)))  # fmt: skip

_DENOISING = "denoising_diffusion_pytorch"
model(f"{_DENOISING}:Unet", lambda g, n: (torch.randn(n, 3, 16, 16, generator=g), torch.randint(0, 100, (n,), generator=g)), dim=16, dim_mults=(1, 2), flash_attn=False)  # fmt: skip


def _gaussian(dims: int) -> Any:
    kind = "" if dims == 2 else "1D"
    unet = named(f"{_DENOISING}:Unet{kind}")(dim=16, dim_mults=(1, 2), **({} if dims == 2 else {"channels": 4}))  # fmt: skip
    size = {"image_size": 16} if dims == 2 else {"seq_length": 16}
    return named(f"{_DENOISING}:GaussianDiffusion{kind}")(unet, timesteps=100, **size)


register(f"{_DENOISING}.loss", lambda: _gaussian(2), lambda g, n: (torch.rand(n, 3, 16, 16, generator=g),))  # fmt: skip
register(f"{_DENOISING}.loss 1d", lambda: _gaussian(1), lambda g, n: (torch.rand(n, 4, 16, generator=g),))  # fmt: skip
