"""Architectures of timm with random weights, the least of each family, for small pictures."""

from __future__ import annotations

from functools import partial
from typing import Any

from zoo.case import Case, Make

__all__ = ["models"]

FAMILIES = (
    "test_byobnet", "test_convnext", "test_convnext2", "test_convnext3", "test_efficientnet", "test_efficientnet_evos",
    "test_efficientnet_gn", "test_efficientnet_ln", "test_mambaout", "test_nfnet", "test_resnet", "test_vit",
    "test_vit2", "test_vit3", "test_vit4",
    "cspresnet50", "densenetblur121d", "dla46_c",
    "edgenext_xx_small", "efficientvit_b0", "efficientvit_m0", "ese_vovnet19b_slim_dw", "fastvit_t8", "fbnetc_100",
    "gernet_s", "ghostnet_050", "ghostnetv2_100", "hardcorenas_a", "hgnetv2_b0", "hrnet_w18_small",
    "inception_next_atto", "lambda_resnet26t", "lcnet_035", "legacy_seresnet18", "mambaout_femto",
    "mixnet_s", "mnasnet_small", "mobilenetv1_100", "mobilenetv3_small_050", "mobilenetv4_conv_small_035",
    "mobileone_s0", "mobilevit_xxs", "mobilevitv2_050", "nf_regnet_b0", "poolformer_s12", "poolformerv2_s12",
    "pvt_v2_b0", "regnetx_002", "regnety_002", "regnetz_b16", "repghostnet_050", "repvgg_a0", "repvit_m0_9",
    "res2net50_14w_8s", "resnest14d", "resnet10t", "resnetv2_18", "rexnet_100", "selecsls42",
    "skresnet18", "spnasnet_100", "starnet_s1", "swiftformer_xs", "tf_efficientnet_b0", "tinynet_e", "vovnet39a",
    "xception41", "shvit_s1", "convnextv2_atto",
)  # fmt: skip
"""For any picture of 64 x 64."""

SIZED: dict[str, dict[str, Any]] = {
    "beit_base_patch16_224": {"embed_dim": 32, "depth": 2, "num_heads": 4},
    "cait_xxs24_224": {"embed_dim": 32, "depth": 2, "num_heads": 4},
    "bat_resnext26ts": {}, "botnet26t_256": {}, "coat_lite_tiny": {"serial_depths": [1, 1, 1, 1]},
    "coatnet_0_rw_224": {}, "convit_tiny": {"embed_dim": 32, "depth": 3, "num_heads": 4, "local_up_to_layer": 2},
    "crossvit_tiny_240": {}, "eca_halonext26ts": {}, "efficientformer_l1": {}, "levit_128s": {}, "sehalonet33ts": {}, "davit_tiny": {"depths": (1, 1, 1, 1), "embed_dims": (16, 32, 32, 32), "num_heads": (2, 2, 2, 2)},
    "deit3_small_patch16_224": {"embed_dim": 32, "depth": 2, "num_heads": 4},
    "eva02_tiny_patch14_224": {"patch_size": 16, "embed_dim": 48, "depth": 2, "num_heads": 3},
    "focalnet_tiny_srf": {},
    "gcvit_xxtiny": {}, "gmixer_12_224": {}, "gmlp_ti16_224": {},
    "hiera_tiny_224": {"embed_dim": 16, "num_heads": 1, "stages": (1, 1, 1, 1)},
    "maxvit_rmlp_pico_rw_256": {}, "mixer_s16_224": {}, "mvitv2_tiny": {},
    "nest_tiny": {},
    "pit_ti_224": {}, "resmlp_12_224": {}, "sequencer2d_s": {"layers": (1, 1, 1, 1), "embed_dims": (16, 16, 16, 16), "hidden_sizes": (4, 4, 4, 4)},
    "swin_tiny_patch4_window7_224": {"embed_dim": 16, "depths": (2, 2), "num_heads": (2, 4), "window_size": 4},
    "swinv2_cr_tiny_ns_224": {"embed_dim": 16, "depths": (2, 2), "num_heads": (2, 4), "window_size": 4},
    "swinv2_tiny_window8_256": {"embed_dim": 16, "depths": (2, 2), "num_heads": (2, 4), "window_size": 4},
    "tiny_vit_5m_224": {}, "twins_svt_small": {"depths": (1, 1, 1, 1), "embed_dims": (16, 16, 32, 32), "num_heads": (2, 2, 2, 2)},
    "visformer_tiny": {}, "vit_base_patch16_rope_reg1_gap_256": {"embed_dim": 64, "depth": 2, "num_heads": 4},
    "vit_small_patch16_224": {"embed_dim": 32, "depth": 2, "num_heads": 4},
    "vit_srelpos_small_patch16_224": {"embed_dim": 32, "depth": 2, "num_heads": 4},
    "vitamin_small_224": {}, "volo_d1_224": {"layers": (1, 1), "embed_dims": (16, 32), "num_heads": (2, 4), "mlp_ratios": (2, 2), "downsamples": (True, False), "outlook_attention": (True, False)},
    "xcit_nano_12_p16_224": {"embed_dim": 32, "depth": 2, "num_heads": 4},
}  # fmt: skip
"""Those that have to be told how large a picture is, and what makes them small."""

_NATIVE = {
    "bat_resnext26ts": 256, "botnet26t_256": 256, "coatnet_0_rw_224": 224, "crossvit_tiny_240": 240, "davit_tiny": 64,
    "eca_halonext26ts": 256, "efficientformer_l1": 224, "levit_128s": 224, "maxvit_rmlp_pico_rw_256": 256,
    "nest_tiny": 224, "sehalonet33ts": 256, "coat_lite_tiny": 224, "focalnet_tiny_srf": 64,
}  # fmt: skip
"""Those whose pictures have one size, or any that they are not told."""


def _made(name: str, side: int, sized: bool, own: dict[str, Any]) -> Case:
    import timm
    import torch

    if sized:
        own = {"img_size": side, **own}
    return Case(timm.create_model(name, pretrained=False, num_classes=10, **own), (torch.randn(2, 3, side, side),))


def models() -> dict[str, Make]:
    """By name; they are built when called, and need timm then."""
    rows: dict[str, Make] = {
        name: partial(_made, name, 160 if name.startswith("test_") else 64, False, {}) for name in FAMILIES
    }
    rows |= {name: partial(_made, name, _NATIVE.get(name, 64), name not in _NATIVE, own) for name, own in SIZED.items()}
    return dict(sorted(rows.items()))
