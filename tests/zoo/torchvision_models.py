"""Architectures of torchvision with random weights, narrow where they can be, for small pictures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from zoo.case import Case, Make

__all__ = ["models"]


def _pictures(side: int = 64, batch: int = 2) -> Any:
    import torch

    return torch.randn(batch, 3, side, side)


def _named(name: str, side: int = 64, **own: Any) -> Case:
    """A model of torchvision by the name that it has there."""
    from torchvision.models import get_model

    return Case(get_model(name, weights=None, num_classes=10, **own), (_pictures(side),))


def _with_small_head(name: str, features: int, side: int = 64) -> Case:
    """One whose last layers are wide: small ones in their place."""
    from torch import nn

    case = _named(name, side, init_weights=False)
    case.model.avgpool = nn.AdaptiveAvgPool2d(1)
    case.model.classifier = nn.Sequential(nn.Linear(features, 32), nn.ReLU(True), nn.Dropout(0.5), nn.Linear(32, 10))
    return case


def _alexnet() -> Case:
    from torch import nn
    from torchvision.models import alexnet

    model = alexnet(num_classes=10)
    model.avgpool = nn.AdaptiveAvgPool2d(1)
    model.classifier = nn.Sequential(nn.Dropout(0.5), nn.Linear(256, 32), nn.ReLU(True), nn.Linear(32, 10))
    return Case(model, (_pictures(),))


def _densenet() -> Case:
    from torchvision.models import DenseNet

    return Case(DenseNet(8, (2, 2, 2, 2), 16, num_classes=10), (_pictures(),))


def _resnet(block: str, **own: Any) -> Case:
    from torchvision.models import ResNet, resnet

    return Case(ResNet(getattr(resnet, block), [1, 1, 1, 1], num_classes=10, **own), (_pictures(),))


def _vit() -> Case:
    from torchvision.models import VisionTransformer

    return Case(VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=10), (_pictures(32),))


def _swin(version: int) -> Case:
    from torchvision.models import SwinTransformer, swin_transformer

    more: dict[str, Any] = {}
    if version == 2:
        more = {"block": swin_transformer.SwinTransformerBlockV2, "downsample_layer": swin_transformer.PatchMergingV2}
    model = SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.0, num_classes=10, **more)
    return Case(model, (_pictures(),))


def _maxvit() -> Case:
    from torchvision.models import MaxVit

    return Case(MaxVit((64, 64), 8, 2, [8, 16], [1, 1], 8, 0.0, num_classes=10), (_pictures(),))


def _convnext() -> Case:
    from torchvision.models import ConvNeXt
    from torchvision.models.convnext import CNBlockConfig

    return Case(ConvNeXt([CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)], 0.0, num_classes=10), (_pictures(),))


def _detector(name: str, **own: Any) -> Case:
    """Boxes of pictures; how many there are depends on the numbers."""
    from torchvision.models import get_model

    model = get_model(name, weights=None, weights_backbone=None, num_classes=5, **own)
    return Case(model, ([_pictures(64, 1)[0]],), trains=False)


def _retinanet() -> Case:
    from torchvision.models.detection import RetinaNet
    from torchvision.models.detection.anchor_utils import AnchorGenerator
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

    body = resnet_fpn_backbone(backbone_name="resnet18", weights=None, returned_layers=[3, 4])
    anchors = AnchorGenerator(((16,),) * 4, ((1.0,),) * 4)
    return Case(RetinaNet(body, 5, min_size=64, max_size=64, anchor_generator=anchors), ([_pictures(64, 1)[0]],), trains=False)


def _segmentation(name: str) -> Case:
    from torchvision.models import get_model

    return Case(get_model(name, weights=None, weights_backbone=None, num_classes=5), (_pictures(64),))


def _raft() -> Case:
    from torchvision.models.optical_flow import raft_small

    return Case(raft_small(weights=None), (_pictures(128, 1), _pictures(128, 1)), {"num_flow_updates": 2})


def _video(make: Callable[[], Any], frames: int = 4, side: int = 32) -> Case:
    import torch

    return Case(make(), (torch.randn(1, 3, frames, side, side),))


def _resnet_of_videos(stem: str, convolution: str) -> Any:
    from torchvision.models.video import resnet

    return resnet.VideoResNet(
        resnet.BasicBlock, [getattr(resnet, convolution)] * 4, [1, 1, 1, 1], getattr(resnet, stem), num_classes=10
    )


def _swin_of_videos() -> Any:
    from torchvision.models.video.swin_transformer import SwinTransformer3d

    return SwinTransformer3d([2, 4, 4], 16, [2, 2], [2, 4], [2, 4, 4], stochastic_depth_prob=0.0, num_classes=10)


def _mvit() -> Any:
    from torchvision.models.video.mvit import MSBlockConfig, MViT

    def block(num_heads: int, inside: int, outside: int, q: list[int], kv: list[int]) -> MSBlockConfig:
        return MSBlockConfig(num_heads, inside, outside, [3, 3, 3], [3, 3, 3], q, kv)

    setting = [block(1, 16, 16, [], [1, 4, 4]), block(2, 16, 32, [1, 2, 2], [1, 2, 2])]
    return MViT((32, 32), 4, setting, True, False, True, True, num_classes=10, stochastic_depth_prob=0.0)


def _s3d() -> Any:
    from torchvision.models.video import s3d

    return s3d(num_classes=10)


def models() -> dict[str, Make]:
    """By name; they are built when called, and need torchvision then."""
    return {
        "alexnet": _alexnet, "convnext": _convnext, "deeplabv3": partial(_segmentation, "deeplabv3_mobilenet_v3_large"),
        "densenet": _densenet, "efficientnet": partial(_named, "efficientnet_b0"),
        "efficientnet_v2": partial(_named, "efficientnet_v2_s"),
        "faster_rcnn": partial(_detector, "fasterrcnn_mobilenet_v3_large_320_fpn", min_size=64, max_size=64),
        "fcos": partial(_detector, "fcos_resnet50_fpn", min_size=64, max_size=64),
        "googlenet": partial(_named, "googlenet", aux_logits=False, init_weights=False),
        "inception_v3": partial(_named, "inception_v3", 96, aux_logits=False, init_weights=False),
        "lraspp": partial(_segmentation, "lraspp_mobilenet_v3_large"), "maxvit": _maxvit,
        "mnasnet": partial(_named, "mnasnet0_5"), "mobilenet_v2": partial(_named, "mobilenet_v2", width_mult=0.25),
        "mobilenet_v3": partial(_named, "mobilenet_v3_small"), "mvit": partial(_video, _mvit), "raft": _raft,
        "regnet_x": partial(_named, "regnet_x_400mf"), "regnet_y": partial(_named, "regnet_y_400mf"),
        "resnet": partial(_resnet, "BasicBlock"), "resnext": partial(_resnet, "Bottleneck", groups=4, width_per_group=4),
        "retinanet": _retinanet, "s3d": partial(_video, _s3d, 16, 224), "shufflenet_v2": partial(_named, "shufflenet_v2_x0_5"),
        "squeezenet": partial(_named, "squeezenet1_1"), "ssdlite": partial(_detector, "ssdlite320_mobilenet_v3_large"),
        "swin": partial(_swin, 1), "swin_v2": partial(_swin, 2), "swin3d": partial(_video, _swin_of_videos),
        "vgg": partial(_with_small_head, "vgg11_bn", 512), "video_mc3": partial(_video, partial(_resnet_of_videos, "BasicStem", "Conv3DNoTemporal")),
        "video_r2plus1d": partial(_video, partial(_resnet_of_videos, "R2Plus1dStem", "Conv2Plus1D")),
        "video_r3d": partial(_video, partial(_resnet_of_videos, "BasicStem", "Conv3DSimple")), "vit": _vit,
    }  # fmt: skip
