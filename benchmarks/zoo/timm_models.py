# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""timm: one or two small members of every family of architectures."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from zoo import Inputs, Program, images
from zoo.vision import settle

NAMES = [
    "beit_base_patch16_224",
    "beitv2_base_patch16_224",
    "botnet26t_256",
    "eca_halonext26ts",
    "halonet26t",
    "lambda_resnet26t",
    "sebotnet33ts_256",
    "bat_resnext26ts",
    "gcresnet33ts",
    "gernet_s",
    "mobileone_s0",
    "repvgg_a0",
    "cait_xxs24_224",
    "coat_lite_tiny",
    "coat_tiny",
    "convit_tiny",
    "convmixer_768_32",
    "convnext_atto",
    "convnext_atto_rms",
    "convnextv2_atto",
    "cpubone_nano",
    "crossvit_tiny_240",
    "crossvit_9_dagger_240",
    "csatv2",
    "cs3darknet_focus_s",
    "cspresnet50",
    "darknet53",
    "davit_tiny",
    "deit3_small_patch16_224",
    "deit_tiny_distilled_patch16_224",
    "densenet121",
    "densenetblur121d",
    "dla34",
    "dla60_res2net",
    "dpn48b",
    "dpn68",
    "edgenext_xx_small",
    "efficientformer_l1",
    "efficientformerv2_s0",
    "efficientnet_b0",
    "efficientnet_b0_gn",
    "efficientnet_b0_g16_evos",
    "efficientnetv2_rw_t",
    "mixnet_s",
    "mnasnet_small",
    "spnasnet_100",
    "tinynet_e",
    "fbnetc_100",
    "tf_efficientnet_b0",
    "tf_mixnet_s",
    "efficientvit_b0",
    "efficientvit_l1",
    "efficientvit_m0",
    "eva02_tiny_patch14_224",
    "fasternet_t0",
    "fastvit_t8",
    "fastvit_mci0",
    "focalnet_tiny_srf",
    "gcvit_xxtiny",
    "ghostnet_050",
    "ghostnetv2_100",
    "ghostnetv3_050",
    "hardcorenas_a",
    "hgnet_tiny",
    "hgnetv2_b0",
    "hiera_tiny_224",
    "sam2_hiera_tiny",
    "hrnet_w18_small",
    "inception_next_atto",
    "inception_resnet_v2",
    "inception_v3",
    "inception_v4",
    "lcnet_050",
    "lcnetv2_small",
    "levit_128s",
    "levit_conv_128s",
    "lowformer_b0",
    "mambaout_femto",
    "coatnet_nano_rw_224",
    "maxvit_rmlp_pico_rw_256",
    "maxxvit_rmlp_nano_rw_256",
    "poolformer_s12",
    "convformer_s18",
    "caformer_s18",
    "gmixer_12_224",
    "gmlp_ti16_224",
    "mixer_s32_224",
    "resmlp_12_224",
    "fbnetv3_b",
    "mobilenetv3_small_050",
    "mobilenetv4_conv_small",
    "mobilenetv4_hybrid_medium",
    "mobilevit_xxs",
    "mobilevitv2_050",
    "mvitv2_tiny",
    "naflexvit_base_patch16_gap",
    "nest_tiny",
    "nextvit_small",
    "eca_nfnet_l0",
    "nf_resnet50",
    "nf_regnet_b0",
    "pit_ti_224",
    "pit_ti_distilled_224",
    "pvt_v2_b0",
    "rdnet_tiny",
    "regnetx_002",
    "regnety_002",
    "regnetz_b16",
    "regnetv_040",
    "repghostnet_050",
    "repvit_m0_9",
    "res2net50_14w_8s",
    "resnest14d",
    "resnet10t",
    "resnet18",
    "resnetaa50",
    "resnetblur18",
    "seresnext26t_32x4d",
    "ecaresnext26t_32x4d",
    "resnetv2_18",
    "resnetv2_50x1_bit",
    "resnetv2_50d_gn",
    "resnetv2_50d_evos",
    "rexnet_100",
    "rexnetr_100",
    "selecsls42",
    "legacy_seresnet18",
    "sequencer2d_s",
    "shvit_s1",
    "skresnet18",
    "starnet_s050",
    "swiftformer_xs",
    "swin_tiny_patch4_window7_224",
    "swin_s3_tiny_224",
    "swinv2_tiny_window8_256",
    "swinv2_cr_tiny_224",
    "tiny_vit_5m_224",
    "tnt_s_patch16_224",
    "tresnet_m",
    "twins_pcpvt_small",
    "twins_svt_small",
    "visformer_tiny",
    "vit_tiny_patch16_224",
    "vit_small_patch32_224",
    "vit_base_patch16_rope_reg1_gap_256",
    "vit_tiny_r_s16_p8_224",
    "vit_relpos_small_patch16_224",
    "vit_srelpos_small_patch16_224",
    "samvit_base_patch16_224",
    "vitamin_small_224",
    "volo_d1_224",
    "vovnet39a",
    "ese_vovnet19b_dw",
    "legacy_xception",
    "xception41",
    "xcit_nano_12_p16_224",
    "nasnetalarge",
    "pnasnet5large",
]
# Names of this list that the installed timm does not know are left out.


def _model(name: str, batch: int = 1) -> tuple[nn.Module, Inputs]:
    import timm

    model = settle(timm.create_model(name, pretrained=False))
    full = model.default_cfg["input_size"][-1]
    for size in (64, 96, 128, 160, 192, 224, full):
        if size > full:
            continue
        try:
            model(torch.zeros(1, 3, size, size))
            break
        except Exception:
            continue
    other: int | None = size + 32
    try:
        model(torch.zeros(1, 3, other, other))
    except Exception:
        other = None
    return model, images(size, other, batch=batch)


def programs() -> list[Program]:
    import timm

    known = set(timm.list_models())
    return [
        Program(
            f"timm.{name}",
            "timm",
            functools.partial(_model, name),
            training=functools.partial(_model, name, batch=2),
        )
        for name in NAMES
        if name in known
    ]


def missing() -> list[Any]:
    import timm

    known = set(timm.list_models())
    return [name for name in NAMES if name not in known]
