"""The check that ends the image's build, and the clash over the name gymnasium that it guards against."""

from pathlib import Path

import pytest

from training.image.verify import LIBRARIES, file_of_module, problems

VERSIONS = {
    "torch": "2.13.0",
    "flash-attn": "2.8.3+cu.13.0.torch.2.13",
    "causal-conv1d": "1.6.2.post1+cu.13.0.torch.2.13",
}
LINKED = "\n".join(f"{library} => /opt/amazon/{library}" for library in LIBRARIES)
VISGYM = Path("/opt/visgym")


def imports_of(**files: str) -> dict[str, str]:
    """Where modules come from, by default and (`<name>_first`) with VisGym's folder first."""
    return {"ray": "x", "skyrl_gym": "x", "training": "x", "gymnasium_first": "/opt/visgym/gymnasium"} | files


def judge(
    *, versions: dict[str, str] = VERSIONS, linked: str = LINKED, files: dict[str, str] | None = None
) -> list[str]:
    known = imports_of() if files is None else files
    return problems(
        versions=versions,
        linked=linked,
        imports=lambda module, first: known.get(f"{module}_first" if first else module, ""),
        visgym=VISGYM,
    )


def test_image_whose_parts_fit_has_no_problem() -> None:
    assert judge() == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"files": imports_of(skyrl_gym="")}, "skyrl_gym cannot be imported"),
        ({"linked": "libfabric.so => x"}, "libnccl-net.so is not known to the linker"),
        ({"linked": "libnccl-net.so => x"}, "libfabric.so is not known to the linker"),
        (
            {"versions": VERSIONS | {"torch": "2.14.0+cu130"}},
            "flash-attn 2.8.3+cu.13.0.torch.2.13 is built for torch 2.13, installed is 2.14",
        ),
        ({"versions": VERSIONS | {"flash-attn": "2.8.3"}}, "flash-attn 2.8.3 is built for torch ?"),
        ({"versions": {"torch": "2.13.0"}}, "causal-conv1d is not installed"),
        (
            {"files": imports_of(gymnasium="/opt/training/lib/gymnasium/__init__.py")},
            "the name gymnasium is taken by /opt/training/lib/gymnasium/__init__.py",
        ),
        (
            {"files": imports_of(gymnasium_first="/opt/training/lib/gymnasium/__init__.py")},
            "with /opt/visgym first on the path gymnasium is /opt/training/lib",
        ),
        ({"files": imports_of(gymnasium_first="")}, "gymnasium is missing, not VisGym"),
    ],
)
def test_misfit_is_named(changes: dict[str, object], problem: str) -> None:
    found = judge(**changes)  # type: ignore[arg-type]
    assert any(problem in line for line in found), found


def a_gymnasium(folder: Path, marker: str) -> Path:
    package = folder / "gymnasium"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"maker = {marker!r}\n")
    return folder


def test_visgym_wins_only_in_the_process_that_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even against an environment that has the real Gymnasium: the folder goes before site-packages."""
    visgym = a_gymnasium(tmp_path / "visgym", "VisGym")
    installed = a_gymnasium(tmp_path / "site-packages", "Farama")
    monkeypatch.setenv("PYTHONPATH", str(installed))
    assert file_of_module("gymnasium", None) == str(installed / "gymnasium" / "__init__.py")
    assert file_of_module("gymnasium", visgym) == str(visgym / "gymnasium" / "__init__.py")


def test_module_that_is_not_there_has_no_file(tmp_path: Path) -> None:
    assert file_of_module("gymnasium", tmp_path) == ""
