"""VisGym is a fork of Gymnasium under the same name; SkyRL must not depend on whose the name is."""

import os
import subprocess
import sys
from pathlib import Path


def test_skyrl_gym_works_while_visgym_has_the_name(tmp_path: Path) -> None:
    package = tmp_path / "gymnasium"
    package.mkdir()
    # Nothing but a marker: whatever skyrl-gym took from the name would be missing.
    (package / "__init__.py").write_text("maker = 'VisGym'\n")
    program = "import gymnasium, skyrl_gym.envs.base_text_env; print(gymnasium.maker)"
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.strip() == "VisGym", run.stderr
