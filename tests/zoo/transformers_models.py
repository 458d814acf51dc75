"""Architectures of Hugging Face's transformers with random weights: two layers, widths of 32, a hundred words."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

from zoo.case import Case, Make

__all__ = ["models"]

WORDS = 99

SMALL: dict[str, Any] = {
    "vocab_size": WORDS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "dim": 32, "emb_dim": 32, "embedding_size": 32,
    "num_hidden_layers": 2, "num_layers": 2, "n_layer": 2, "n_layers": 2, "num_decoder_layers": 2, "encoder_layers": 2,
    "decoder_layers": 2,
    "num_attention_heads": 4, "num_heads": 4, "n_head": 4, "n_heads": 4, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "d_kv": 8,
    "intermediate_size": 64, "d_ff": 64, "hidden_dim": 64, "ffn_dim": 64, "d_inner": 64, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64, "n_inner": 64,
    "max_position_embeddings": 64, "n_positions": 64, "seq_length": 64,
    "image_size": 32, "patch_size": 8,
    "num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
}  # fmt: skip
"""What configurations are given, those of them that have these names."""

ENCODERS: dict[str, dict[str, Any]] = {
    "albert": {}, "bert": {}, "big_bird": {"attention_type": "original_full"}, "camembert": {}, "canine": {},
    "convbert": {}, "data2vec-text": {}, "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}, "distilbert": {}, "electra": {},
    "ernie": {}, "esm": {"token_dropout": True, "mask_token_id": 4, "position_embedding_type": "rotary"},
    "flaubert": {}, "fnet": {}, "funnel": {"block_sizes": [1, 1], "d_head": 8, "num_decoder_layers": 1},
    "ibert": {}, "layoutlm": {}, "longformer": {"attention_window": 8}, "megatron-bert": {},
    "mobilebert": {"intra_bottleneck_size": 32, "true_hidden_size": 32}, "modernbert": {}, "mpnet": {}, "mra": {},
    "nystromformer": {"num_landmarks": 4, "segment_means_seq_len": 12}, "reformer": {
        "attn_layers": ["local", "lsh"], "axial_pos_shape": [4, 4], "axial_pos_embds_dim": [16, 16],
        "attention_head_size": 8, "feed_forward_size": 64, "lsh_attn_chunk_length": 4, "local_attn_chunk_length": 4,
        "num_buckets": 4, "hash_seed": 0, "is_decoder": False,
    },
    "rembert": {"input_embedding_size": 32, "output_embedding_size": 32}, "roberta": {}, "roformer": {},
    "splinter": {}, "squeezebert": {"q_groups": 2, "k_groups": 2, "v_groups": 2, "intermediate_groups": 2,
                                    "output_groups": 2, "post_attention_groups": 1},
    "xlm": {}, "xlm-roberta": {}, "xlm-roberta-xl": {}, "xlnet": {}, "yoso": {},
}  # fmt: skip

DECODERS: dict[str, dict[str, Any]] = {
    "apertus": {}, "arcee": {}, "bamba": {"mamba_d_head": 16, "mamba_n_heads": 4, "mamba_d_state": 8, "mamba_n_groups": 1,
                                          "mamba_chunk_size": 8, "attn_layer_indices": [1]},
    "biogpt": {}, "bitnet": {}, "bloom": {}, "codegen": {"rotary_dim": 4}, "cohere": {}, "cohere2": {}, "ctrl": {"dff": 64},
    "deepseek_v2": {"q_lora_rank": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8,
                    "head_dim": 4, "n_routed_experts": 4, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
    "deepseek_v3": {"q_lora_rank": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8,
                    "head_dim": 4, "n_routed_experts": 4, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1},
    "ernie4_5": {}, "exaone4": {}, "falcon": {}, "falcon_mamba": {"state_size": 8, "time_step_rank": 4}, "gemma": {},
    "gemma2": {"sliding_window": 8, "query_pre_attn_scalar": 8}, "gemma3_text": {"sliding_window": 8}, "glm": {}, "glm4": {},
    "gpt2": {}, "gpt_bigcode": {}, "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "gpt_neox": {}, "gpt_oss": {"sliding_window": 8}, "gptj": {"rotary_dim": 4}, "granite": {}, "granitemoe": {},
    "helium": {}, "hunyuan_v1_dense": {}, "jamba": {"mamba_d_state": 8, "mamba_dt_rank": 4, "attn_layer_period": 2,
                                                    "attn_layer_offset": 1, "use_mamba_kernels": False},
    "lfm2": {"layer_types": ["conv", "full_attention"]}, "llama": {}, "llama4_text": {"intermediate_size_mlp": 64},
    "mamba": {"state_size": 8, "time_step_rank": 4},
    "mamba2": {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 8}, "mistral": {},
    "mixtral": {}, "mpt": {}, "nemotron": {}, "olmo": {}, "olmo2": {}, "olmoe": {}, "openai-gpt": {},
    "opt": {"word_embed_proj_dim": 32}, "persimmon": {}, "phi": {}, "phi3": {}, "phimoe": {}, "qwen2": {}, "qwen2_moe": {},
    "qwen3": {}, "qwen3_moe": {}, "qwen3_next": {"linear_num_value_heads": 4, "linear_num_key_heads": 2,
                                                 "linear_key_head_dim": 8, "linear_value_head_dim": 8},
    "recurrent_gemma": {"lru_width": 32, "attention_window_size": 8}, "rwkv": {"attention_hidden_size": 32},
    "smollm3": {}, "stablelm": {}, "starcoder2": {}, "xglm": {"attention_heads": 4}, "zamba2": {
        "mamba_d_state": 8, "n_mamba_heads": 4, "mamba_headdim": 16, "mamba_ngroups": 1, "chunk_size": 8,
        "layers_block_type": ["mamba", "hybrid"], "use_mem_rope": False,
    },
}  # fmt: skip

BOTH: dict[str, dict[str, Any]] = {
    "bart": {}, "bigbird_pegasus": {"attention_type": "original_full"}, "blenderbot": {}, "blenderbot-small": {},
    "fsmt": {"langs": ["en", "de"], "src_vocab_size": WORDS, "tgt_vocab_size": WORDS}, "led": {
        "attention_window": 8, "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64,
    },
    "longt5": {"local_radius": 3}, "m2m_100": {}, "marian": {}, "mbart": {}, "mt5": {}, "mvp": {},
    "nllb-moe": {"expert_capacity": 100}, "pegasus": {}, "pegasus_x": {"num_global_tokens": 4, "block_size": 8},
    "plbart": {}, "prophetnet": {"num_encoder_layers": 2, "num_encoder_attention_heads": 4,
                                 "num_decoder_attention_heads": 4},
    "switch_transformers": {"num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1}, "t5": {}, "umt5": {},
}  # fmt: skip

PICTURES: dict[str, dict[str, Any]] = {
    "beit": {}, "bit": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_groups": 4},
    "clip_vision_model": {}, "convnext": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "patch_size": 4},
    "convnextv2": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "patch_size": 4},
    "data2vec-vision": {}, "deit": {}, "depth_anything": {}, "dinov2": {}, "dinov3_convnext": {
        "hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1],
    }, "dinov3_vit": {}, "dpt": {"backbone_out_indices": [0, 1, 0, 1], "neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 8},
    "efficientnet": {"width_coefficient": 0.25, "depth_coefficient": 0.25, "hidden_dim": 320},
    "focalnet": {"embed_dim": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "patch_size": 4, "focal_levels": [2, 2],
                 "focal_windows": [3, 3]},
    "glpn": {"num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [4, 2], "hidden_sizes": [8, 16], "patch_sizes": [7, 3],
             "strides": [4, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 2], "decoder_hidden_size": 8},
    "hiera": {"embed_dim": 8, "depths": [1, 1, 1], "num_heads": [1, 2, 2], "num_query_pool": 2, "image_size": [64, 64],
              "masked_unit_size": [4, 4], "masked_unit_attention": [True, True, False]},
    "ijepa": {}, "imagegpt": {}, "levit": {"hidden_sizes": [16, 24, 32], "num_attention_heads": [2, 3, 4],
                                          "depths": [1, 1, 1], "key_dim": [8, 8, 8], "image_size": 64, "patch_size": 16},
    "mobilenet_v1": {"depth_multiplier": 0.25}, "mobilenet_v2": {"depth_multiplier": 0.25},
    "mobilevit": {"hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 16, 24, 32, 32], "patch_size": 2, "image_size": 64},
    "mobilevitv2": {"width_multiplier": 0.25, "image_size": 64, "patch_size": 2},
    "poolformer": {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "patch_size": 16},
    "pvt": {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 2], "image_size": 64,
            "patch_sizes": [4, 2, 2, 2]},
    "pvt_v2": {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 2], "image_size": 64},
    "regnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 4},
    "resnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "bottleneck"},
    "segformer": {"num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [4, 2], "hidden_sizes": [8, 16],
                  "patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 2]},
    "siglip_vision_model": {}, "swiftformer": {"depths": [1, 1], "embed_dims": [8, 16], "downsamples": [True, True],
                                              "down_patch_size": 3, "image_size": 64},
    "swin": {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "patch_size": 2},
    "swin2sr": {"embed_dim": 16, "depths": [2], "num_heads": [2], "window_size": 4, "patch_size": 1},
    "swinv2": {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "patch_size": 2},
    "timesformer": {"num_frames": 2}, "van": {}, "videomae": {"num_frames": 2, "tubelet_size": 2}, "vit": {}, "vit_mae": {
        "decoder_hidden_size": 16, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 2,
    }, "vit_msn": {}, "vitdet": {"pretrain_image_size": 32, "window_size": 0}, "vivit": {"num_frames": 2, "tubelet_size": [2, 8, 8]}, "yolos": {"image_size": [32, 32], "num_detection_tokens": 5},
}  # fmt: skip

HEADS = {  # those that are more with a head, and the class
    "detr": ("DetrForObjectDetection", {}), "dpt": ("DPTForDepthEstimation", {}),
    "segformer": ("SegformerForSemanticSegmentation", {"decoder_hidden_size": 16}),
    "yolos": ("YolosForObjectDetection", {}), "glpn": ("GLPNForDepthEstimation", {}),
    "swin2sr": ("Swin2SRForImageSuperResolution", {"upscale": 2}),
}  # fmt: skip

_CONVOLUTIONS = {
    "conv_dim": [16, 16, 16], "conv_stride": [5, 4, 4], "conv_kernel": [10, 8, 4], "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2,
}  # fmt: skip

WAVES: dict[str, dict[str, Any]] = {
    "data2vec-audio": {"conv_dim": [16, 16, 16], "conv_stride": [5, 4, 4], "conv_kernel": [10, 8, 4],
                       "num_conv_pos_embeddings": 2, "num_conv_pos_embedding_groups": 2, "conv_pos_kernel_size": 3},
    "hubert": _CONVOLUTIONS, "sew": {**_CONVOLUTIONS, "squeeze_factor": 2}, "unispeech": _CONVOLUTIONS,
    "unispeech-sat": _CONVOLUTIONS, "wav2vec2": _CONVOLUTIONS, "wav2vec2-conformer": _CONVOLUTIONS, "wavlm": _CONVOLUTIONS,
}  # fmt: skip


def configuration(kind: str, own: Mapping[str, Any]) -> Any:
    """A small configuration of a kind of model; `own` are settings of it, `SMALL` the rest where it has the name."""
    from transformers import CONFIG_MAPPING

    made = CONFIG_MAPPING[kind]
    names = {n for part in made.__mro__ for n in getattr(part, "__annotations__", ())}
    names |= set(inspect.signature(made.__init__).parameters)
    return made(**{**{name: value for name, value in SMALL.items() if name in names}, **own})


def _tokens(length: int = 12) -> Any:
    import torch

    return torch.randint(5, WORDS, (2, length))


def _mask(length: int = 12) -> Any:
    import torch

    mask = torch.ones(2, length, dtype=torch.int64)
    mask[1, -3:] = 0
    return mask


def _made(kind: str, head: str, own: Mapping[str, Any]) -> Any:
    import transformers

    config = configuration(kind, own)
    made = getattr(transformers, head)
    return made.from_config(config) if head.startswith("Auto") else made(config)


def encoder(kind: str, own: Mapping[str, Any]) -> Case:
    length = 16 if kind in ("reformer", "canine") else 12
    options = {"input_ids": _tokens(length)}
    if kind not in ("fnet",):
        options["attention_mask"] = _mask(length)
    return Case(_made(kind, "AutoModel", own), (), options)


def decoder(kind: str, own: Mapping[str, Any]) -> Case:
    return Case(_made(kind, "AutoModelForCausalLM", own), (), {"input_ids": _tokens()}, words=WORDS)


def sequences(kind: str, own: Mapping[str, Any]) -> Case:
    options = {"input_ids": _tokens(), "attention_mask": _mask(), "decoder_input_ids": _tokens(7)}
    return Case(_made(kind, "AutoModelForSeq2SeqLM", own), (), options, words=WORDS)


def picture(kind: str, own: Mapping[str, Any]) -> Case:
    import torch

    head, more = HEADS.get(kind, ("AutoModel", {}))
    own = {**own, **more}
    if kind == "depth_anything":
        head, own = "DepthAnythingForDepthEstimation", {
            "backbone_config": configuration("dinov2", {"out_features": ["stage1", "stage2"], "reshape_hidden_states": False}),
            "reassemble_hidden_size": 32, "neck_hidden_sizes": [8, 16], "fusion_hidden_size": 8,
            "reassemble_factors": [2, 1], "head_hidden_size": 4, "patch_size": 8,
        }  # fmt: skip
    if kind == "imagegpt":
        return Case(_made(kind, "AutoModel", own), (), {"input_ids": _tokens()})
    model = _made(kind, head, own)
    side = model.config.image_size if isinstance(getattr(model.config, "image_size", None), int) else 64
    side = side if side in (32, 64) else 64
    if isinstance(getattr(model.config, "image_size", None), (list, tuple)):
        side = model.config.image_size[0]
    moving = kind in ("timesformer", "videomae", "vivit")
    options = {"pixel_values": torch.randn(2, *((2,) if moving else ()), 3, side, side)}
    if kind == "vit_mae":
        options["noise"] = torch.rand(2, 16)
    return Case(model, (), options)


def wave(kind: str, own: Mapping[str, Any]) -> Case:
    import torch

    return Case(_made(kind, "AutoModel", own), (), {"input_values": torch.randn(2, 1600)})


def _whisper() -> Case:
    import torch

    model = _made("whisper", "WhisperForConditionalGeneration", {
        "num_mel_bins": 16, "max_source_positions": 30, "max_target_positions": 40, "suppress_tokens": None,
        "begin_suppress_tokens": None,
    })  # fmt: skip
    return Case(model, (), {"input_features": torch.randn(2, 16, 60), "decoder_input_ids": _tokens(7)}, words=WORDS)


def _speech_to_text() -> Case:
    import torch

    own = {"conv_channels": 16, "input_feat_per_channel": 16, "max_source_positions": 64, "max_target_positions": 64}
    options = {"input_features": torch.randn(2, 40, 16), "decoder_input_ids": _tokens(7)}
    return Case(_made("speech_to_text", "Speech2TextForConditionalGeneration", own), (), options)


def _spectrogram() -> Case:
    import torch

    own = {"num_mel_bins": 16, "max_length": 32, "frequency_stride": 4, "time_stride": 4}
    return Case(_made("audio-spectrogram-transformer", "AutoModel", own), (), {"input_values": torch.randn(2, 32, 16)})


def _encodec() -> Case:
    import torch

    own = {"num_filters": 4, "hidden_size": 16, "codebook_size": 32, "codebook_dim": 16, "upsampling_ratios": [4, 2],
           "target_bandwidths": [24.0], "num_lstm_layers": 1}  # fmt: skip
    return Case(_made("encodec", "AutoModel", own), (), {"input_values": torch.randn(1, 1, 640)}, trains=False)


def _parts(kind: str, text: Mapping[str, Any], vision: Mapping[str, Any], **own: Any) -> Any:
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
             "max_position_embeddings", "pad_token_id", "bos_token_id", "eos_token_id")  # fmt: skip
    seen = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "image_size", "patch_size")
    return configuration(kind, {
        "text_config": {n: SMALL[n] for n in names} | dict(text), "vision_config": {n: SMALL[n] for n in seen} | dict(vision),
        **own,
    })  # fmt: skip


def _pair(kind: str, head: str, text: Mapping[str, Any], vision: Mapping[str, Any], **own: Any) -> Case:
    """A model of a text and a picture."""
    import torch
    import transformers

    model = getattr(transformers, head)(_parts(kind, text, vision, **own))
    tokens = _tokens()
    tokens[:, -1] = SMALL["eos_token_id"]
    options = {"input_ids": tokens, "attention_mask": _mask(), "pixel_values": torch.randn(2, 3, 32, 32)}
    return Case(model, (), options)


def _llava() -> Case:
    import torch
    import transformers

    vision = configuration("clip_vision_model", {})
    text = configuration("llama", {"vocab_size": WORDS + 1})
    config = transformers.LlavaConfig(
        vision_config=vision, text_config=text, image_token_id=WORDS, image_token_index=WORDS, vision_feature_layer=-1
    )
    tokens = torch.cat([_tokens(3), torch.full((2, 16), WORDS), _tokens(5)], 1)
    model = transformers.LlavaForConditionalGeneration(config)
    return Case(model, (), {"input_ids": tokens, "pixel_values": torch.randn(2, 3, 32, 32)})


def _vilt() -> Case:
    import torch

    options = {"input_ids": _tokens(), "attention_mask": _mask(), "pixel_values": torch.randn(2, 3, 32, 32)}
    return Case(_made("vilt", "AutoModel", {"max_image_length": -1}), (), options)


def _detector(kind: str, head: str, **own: Any) -> Case:
    """Boxes of a picture, by a transformer over the features of a convolutional net."""
    import torch
    import transformers

    backbone = configuration("resnet", {
        "embedding_size": 8, "hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "layer_type": "basic",
        "out_features": ["stage2", "stage3", "stage4"],
    })  # fmt: skip
    given = {"use_timm_backbone": False, "backbone": None, "backbone_config": backbone, "num_queries": 6,
             "use_pretrained_backbone": False, **own}  # fmt: skip
    model = getattr(transformers, head)(configuration(kind, given))
    return Case(model, (), {"pixel_values": torch.randn(1, 3, 64, 64)}, trains=False)


def _series(kind: str, head: str, **own: Any) -> Case:
    import torch

    own = {"prediction_length": 4, "context_length": 8, "num_time_features": 1, "lags_sequence": [1, 2, 3],
           "num_static_categorical_features": 0, **own}  # fmt: skip
    past = 8 + 3
    options = {
        "past_values": torch.randn(2, past), "past_time_features": torch.randn(2, past, 1),
        "past_observed_mask": torch.ones(2, past), "future_time_features": torch.randn(2, 4, 1),
        "future_values": torch.randn(2, 4),
    }  # fmt: skip
    return Case(_made(kind, head, own), (), options)


def _patches(kind: str) -> Case:
    import torch

    own = {"num_input_channels": 3, "context_length": 32, "patch_length": 8, "patch_stride": 8, "prediction_length": 4}
    return Case(_made(kind, "AutoModel", own), (), {"past_values": torch.randn(2, 32, 3)})


def _perceiver() -> Case:
    own = {"num_latents": 4, "d_latents": 16, "num_blocks": 1, "num_self_attends_per_block": 1,
           "num_self_attention_heads": 2, "num_cross_attention_heads": 2}  # fmt: skip
    return Case(_made("perceiver", "PerceiverForMaskedLM", own), (), {"inputs": _tokens(), "attention_mask": _mask()})


def _sparse_big_bird() -> Case:
    own = {"attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 1, "max_position_embeddings": 128}
    return Case(_made("big_bird", "AutoModel", own), (), {"input_ids": _tokens(64)}, trains=False)


def _classifier() -> Case:
    """With a head and a loss, as it is trained."""
    import torch

    model = _made("bert", "AutoModelForSequenceClassification", {"num_labels": 3})
    options = {"input_ids": _tokens(), "attention_mask": _mask(), "labels": torch.tensor([0, 2])}
    return Case(model, (), options)


def _language() -> Case:
    """With the loss of a language model."""
    tokens = _tokens()
    return Case(_made("llama", "AutoModelForCausalLM", {}), (), {"input_ids": tokens, "labels": tokens})


OTHERS: dict[str, Make] = {
    "altclip": partial(_pair, "altclip", "AltCLIPModel", {"project_dim": 16}, {}, projection_dim=16),
    "audio-spectrogram-transformer": _spectrogram, "bert-classifier": _classifier, "big_bird-sparse": _sparse_big_bird,
    "blip": partial(_pair, "blip", "BlipForConditionalGeneration", {"encoder_hidden_size": 32, "projection_dim": 16}, {"projection_dim": 16}),
    "chinese_clip": partial(_pair, "chinese_clip", "ChineseCLIPModel", {}, {}, projection_dim=16),
    "clip": partial(_pair, "clip", "CLIPModel", {"projection_dim": 16}, {"projection_dim": 16}, projection_dim=16),
    "clipseg": partial(_pair, "clipseg", "CLIPSegForImageSegmentation", {"projection_dim": 16}, {"projection_dim": 16},
                       projection_dim=16, extract_layers=[0, 1], reduce_dim=8, decoder_num_attention_heads=2,
                       decoder_intermediate_size=16),
    "conditional_detr": partial(_detector, "conditional_detr", "ConditionalDetrForObjectDetection"),
    "deformable_detr": partial(_detector, "deformable_detr", "DeformableDetrForObjectDetection", num_feature_levels=3),
    "detr": partial(_detector, "detr", "DetrForObjectDetection"), "encodec": _encodec,
    "flava": partial(_pair, "flava", "FlavaModel", {}, {}),
    "groupvit": partial(_pair, "groupvit", "GroupViTModel", {}, {"depths": [1, 1], "num_group_tokens": [4, 0], "num_output_groups": [4, 4]}, projection_dim=16, projection_intermediate_dim=32),
    "informer": partial(_series, "informer", "AutoModel"),
    "llama-loss": _language, "llava": _llava, "patchtsmixer": partial(_patches, "patchtsmixer"),
    "patchtst": partial(_patches, "patchtst"), "perceiver": _perceiver,
    "rt_detr": partial(_detector, "rt_detr", "RTDetrForObjectDetection", encoder_hidden_dim=32, encoder_in_channels=[16, 16, 16],
                       feat_strides=[8, 16, 32], decoder_in_channels=[32, 32, 32], decoder_ffn_dim=64, num_denoising=0,
                       decoder_n_points=2, hidden_expansion=0.5),
    "siglip": partial(_pair, "siglip", "SiglipModel", {}, {}), "speech_to_text": _speech_to_text,
    "time_series_transformer": partial(_series, "time_series_transformer", "AutoModel"), "vilt": _vilt, "whisper": _whisper,
}  # fmt: skip


def models() -> dict[str, Make]:
    """By name; they are built when called, and need transformers then."""
    rows: dict[str, Make] = {}
    for make, table in (
        (encoder, ENCODERS), (decoder, DECODERS), (sequences, BOTH), (picture, PICTURES), (wave, WAVES),
    ):  # fmt: skip
        rows.update({kind: partial(make, kind, own) for kind, own in table.items()})
    return dict(sorted((rows | OTHERS).items()))
