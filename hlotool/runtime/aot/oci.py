"""A container image as the Open Container Initiative lays it out in a folder: JSON and tar archives, by their hashes.

After its image format specification, version 1.1 (``opencontainers/image-spec``: layout, manifest, config, layer).
Nothing but the contents decides the bytes: names are sorted, owners are 0, and it is 1 January 1970.  Layers are not
compressed: tools do that on the way to a registry.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from hlotool.ir import UnsupportedError
from hlotool.lazy_dataclass import dataclass

__all__ = ["File", "Image", "blobs_of", "layout"]

_ARCHITECTURES = {
    "x86_64": "amd64", "aarch64": "arm64", "riscv64": "riscv64", "s390x": "s390x", "powerpc64le": "ppc64le",
    "ppc64le": "ppc64le",
}  # fmt: skip
"""As triples call them: as images do, which have Go's names."""
_EPOCH = "1970-01-01T00:00:00Z"
_NOBODY = "65532:65532"
"""A user without a name or rights, as images without a system have."""

_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"


@dataclass(frozen=True, slots=True)
class File:
    """A file of a layer, in parts, and whether it is a program."""

    parts: Sequence[bytes]
    program: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image: layers, which are files by their paths (``app/server``), with what each is for; what it runs, in which
    folder; the port on which it listens; its name and labels."""

    triple: str
    layers: Sequence[tuple[str, Mapping[str, File]]]
    entrypoint: tuple[str, ...]
    folder: str
    port: int
    tag: str
    labels: Mapping[str, str]


def layout(image: Image) -> dict[str, Sequence[bytes]]:
    """The files of the layout by their paths, ``index.json`` the last one.

    UnsupportedError for a system other than Linux, or a processor that images have no name for.
    """
    architecture = _ARCHITECTURES.get(image.triple.partition("-")[0])
    if architecture is None or "linux" not in image.triple:
        raise UnsupportedError(f"{image.triple}: there are no images for this system")
    files: dict[str, Sequence[bytes]] = {"oci-layout": [_json({"imageLayoutVersion": "1.0.0"})]}

    def blob(kind: str, parts: Sequence[bytes]) -> dict[str, Any]:
        digest = sha256()
        for part in parts:
            digest.update(part)
        files[f"blobs/sha256/{digest.hexdigest()}"] = parts
        return {"mediaType": kind, "digest": f"sha256:{digest.hexdigest()}", "size": sum(map(len, parts))}

    layers = [blob(_LAYER, _tar(contents)) for _, contents in image.layers]
    config = {
        "created": _EPOCH,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": _NOBODY,
            "ExposedPorts": {f"{image.port}/tcp": {}},
            "Entrypoint": list(image.entrypoint),
            "WorkingDir": image.folder,
            "Labels": dict(sorted(image.labels.items())),
            "StopSignal": "SIGTERM",
        },
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
        "history": [{"created": _EPOCH, "created_by": "hlotool", "comment": purpose} for purpose, _ in image.layers],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": blob(_CONFIG, [_json(config)]),
        "layers": layers,
        "annotations": dict(sorted(image.labels.items())),
    }
    described = {
        **blob(_MANIFEST, [_json(manifest)]),
        "platform": {"architecture": architecture, "os": "linux"},
        "annotations": {"org.opencontainers.image.ref.name": image.tag},
    }
    files["index.json"] = [_json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [described]})]
    return files


def blobs_of(files: Mapping[str, object]) -> set[str]:
    """The names of the blobs of a layout: others in its folder are those of an image that was there before."""
    return {path.rpartition("/")[2] for path in files if path.startswith("blobs/sha256/")}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _tar(contents: Mapping[str, File]) -> list[bytes]:
    """An archive of files and the folders that they are in, in order; in parts, since weights are large."""
    folders = {path[:place] for path in contents for place, character in enumerate(path) if character == "/"}
    parts: list[bytes] = []
    for path in sorted([*folders, *contents]):
        file = contents.get(path)
        row = tarfile.TarInfo(path)
        row.type = tarfile.DIRTYPE if file is None else tarfile.REGTYPE
        row.mode = 0o755 if file is None or file.program else 0o644
        row.size = 0 if file is None else sum(map(len, file.parts))
        parts.append(row.tobuf(tarfile.PAX_FORMAT))
        if file is not None:
            parts += [*file.parts, bytes(-row.size % tarfile.BLOCKSIZE)]
    return [*parts, bytes(2 * tarfile.BLOCKSIZE)]
