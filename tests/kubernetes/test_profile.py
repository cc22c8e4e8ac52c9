"""The Kubernetes profile uses Snakemake's own executor, and only options that it has."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
APART = ROOT / ".venv/apart/kubernetes"


@pytest.mark.needs("kubernetes")
def test_the_profile_names_an_installed_executor_and_storage(project_root: Path) -> None:
    profile = yaml.safe_load((project_root / "profiles/kubernetes/config.yaml").read_text(encoding="utf-8"))
    assert (APART / f"snakemake_executor_plugin_{profile['executor']}").is_dir()
    assert (APART / f"snakemake_storage_plugin_{profile['default-storage-provider']}").is_dir()
    assert profile["set-resources"]["measure"]["scale"] == 0
