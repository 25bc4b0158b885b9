"""The code of a job as one zip under the hash of its content: the same code is the same package."""

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

LEFT_OUT = {"__pycache__", "image", ".pytest_cache"}
EPOCH = (1980, 1, 1, 0, 0, 0)
"""A fixed time in the zip's entries, so that only content changes the hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePackage:
    """A package for Ray's package store."""

    name: str
    content: bytes

    @property
    def uri(self) -> str:
        """What a job's runtime environment names as its working directory."""
        return f"gcs://{self.name}"


def package_code(folder: Path) -> CodePackage:
    """Zip a Python package so that it is importable by its folder's name from the zip's root."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            relative = path.relative_to(folder)
            if path.is_file() and not LEFT_OUT & set(relative.parts):
                entry = zipfile.ZipInfo(str(Path(folder.name) / relative), EPOCH)
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    content = buffer.getvalue()
    digest = hashlib.sha256(content).hexdigest()[:16]
    return CodePackage(name=f"_ray_pkg_{digest}.zip", content=content)
