"""Names of rules that the workflow lists beside the rules: Snakemake only warns of one that there is not."""

import re
from pathlib import Path


def test_every_local_rule_is_a_rule(project_root: Path) -> None:
    files = [*project_root.glob("rules/*.smk"), project_root / "Snakefile"]
    texts = [file.read_text(encoding="utf-8") for file in files]
    rules = {name for text in texts for name in re.findall(r"^ *rule (\w+):", text, re.M)}
    blocks = [block for text in texts for block in re.findall(r"localrules:((?:\s+\w+,)+)", text)]
    listed = {name for block in blocks for name in re.findall(r"\w+", block)}
    assert listed
    assert listed - rules == set()
