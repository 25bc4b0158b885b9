"""KubeRay's custom resource definitions: where they lie, how they get there, that they are the right ones.

They are not part of this repository. `make crds` (`python -m k8s crds`) takes them once from KubeRay's
release; a build host without network keeps them in a folder `shared/kuberay` beside the clone. Either way
each file is the definition's version v1 as compact JSON without descriptions, its checksum known here.
"""

import hashlib
import json
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from k8s.names import KUBERAY_COMMIT, KUBERAY_VERSION

_REPOSITORY = Path(__file__).parents[2]
DOWNLOAD_FOLDER = _REPOSITORY / ".build" / "kuberay-crds"
_FOLDERS = (DOWNLOAD_FOLDER, _REPOSITORY.parent / "shared" / "kuberay")
_URL = (
    f"https://raw.githubusercontent.com/ray-project/kuberay/{KUBERAY_COMMIT}"
    "/ray-operator/config/crd/bases/ray.io_{plural}.yaml"
)
_TIMEOUT_SECONDS = 60
_SERVED_VERSION = "v1"

PLURALS = {
    "RayCluster": "rayclusters",
    "RayJob": "rayjobs",
    "RayService": "rayservices",
    "RayCronJob": "raycronjobs",
}
_SHA256 = {
    "rayclusters": "55ccb2fd8303909244322b763413d78894f07cf29f27ed40f4d3211f1cce91f5",
    "rayjobs": "77683a0c4cf28f66e98d41dd9148446ccdc1694b401cc387867aa9944e8bc55e",
    "rayservices": "a6d2ac08d2889e2ccee3a4cf1faa886076656a8ca2a0e14145ef568caf365e60",
    "raycronjobs": "09b1044850708c442e9ca4fe1c4a61e2b2c0c864345ea62ca9a48f6c89411947",
}


class CrdsMissing(Exception):
    """KubeRay's definitions are not there, or are not those of the pinned release."""


def at_hand() -> bool:
    """Whether the definitions are on this machine; that they are the right ones shows when one is read."""
    return all(
        any((folder / _file_name(plural)).exists() for folder in _FOLDERS) for plural in PLURALS.values()
    )


@cache
def openapi_schema(kind: str) -> dict[str, Any]:
    """The OpenAPI schema of a kind of KubeRay. Raises CrdsMissing."""
    plural = PLURALS[kind]
    path = _find(plural)
    text = path.read_text(encoding="utf-8")
    _verify(plural, text, str(path))
    schema: dict[str, Any] = json.loads(text)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def download(folder: Path = DOWNLOAD_FOLDER) -> list[Path]:
    """Fetch the definitions of the pinned release into a folder. Raises CrdsMissing, OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for plural in _SHA256:
        url = _URL.format(plural=plural)
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310 (a constant)
            text = compact(response.read().decode())
        _verify(plural, text, url)
        path = folder / _file_name(plural)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def compact(definition: str) -> str:
    """A definition's YAML as compact JSON: the served version alone, without descriptions."""
    content = yaml.load(definition, yaml.CSafeLoader)
    versions = content["spec"]["versions"]
    content["spec"]["versions"] = [version for version in versions if version["name"] == _SERVED_VERSION]
    return json.dumps(_without_descriptions(content), sort_keys=True, separators=(",", ":"))


def _without_descriptions(value: Any) -> Any:
    """A field that is itself called `description` has a schema, not a text, and stays."""
    if isinstance(value, dict):
        return {
            key: _without_descriptions(item)
            for key, item in value.items()
            if not (key == "description" and isinstance(item, str))
        }
    if isinstance(value, list):
        return [_without_descriptions(item) for item in value]
    return value


def _file_name(plural: str) -> str:
    return f"ray.io_{plural}.{_SERVED_VERSION}.json"


def _find(plural: str) -> Path:
    for folder in _FOLDERS:
        path = folder / _file_name(plural)
        if path.exists():
            return path
    looked = " and ".join(str(folder) for folder in _FOLDERS)
    raise CrdsMissing(f"{_file_name(plural)} is in neither of {looked}. Run `make crds`.")


def _verify(plural: str, text: str, source: str) -> None:
    found = hashlib.sha256(text.encode()).hexdigest()
    if found != _SHA256[plural]:
        raise CrdsMissing(
            f"{source} is not KubeRay {KUBERAY_VERSION}'s: sha256 {found}, expected {_SHA256[plural]}."
            " Delete it and run `make crds`."
        )
