"""What the README promises holds."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_example_prints_what_the_readme_says(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (sentence,) = re.findall(r"It prints (.*?), at once", README, re.DOTALL)
    promised = re.findall(r"`(.*?)`", sentence)

    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.stdout, done.stderr) == ("".join(f"{line}\n" for line in promised), "")


def test_it_fits_a_screen():
    assert len(README.splitlines()) <= 60


def test_every_command_and_file_that_it_names_is_there():
    commands = set(re.findall(r"bin/[a-z-]+", README))
    links = set(re.findall(r"\]\(([^)]+)\)", README))

    assert commands >= {"bin/run-cluster", "bin/test"}
    assert all((ROOT / name).is_file() for name in commands | links)
