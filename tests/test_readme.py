"""What the README promises holds."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
MOST_PICTURE_BYTES = 400_000


def example() -> str:
    (found,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    return found


def test_the_pytest_example_passes_in_a_project_of_its_own(tmp_path):
    (tmp_path / "test_orders.py").write_text(example())
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_the_example_project_shows_the_same_test():
    assert example() == (ROOT / "tests" / "example" / "test_readme_example.py").read_text()


def test_the_example_is_ten_lines_or_so():
    body = example().partition("async def")[2].splitlines()

    assert len(body) <= 12


def test_it_fits_a_screen():
    assert len(README.splitlines()) <= 60


def test_every_command_and_file_that_it_names_is_there():
    commands = set(re.findall(r"bin/[a-z-]+", README))
    links = set(re.findall(r"\]\(([^)]+)\)", README))

    assert commands >= {"bin/run-cluster", "bin/test"}
    assert all((ROOT / name).is_file() for name in commands | links)


def test_its_picture_is_a_small_png():
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)
    content = (ROOT / picture).read_bytes()

    assert content.startswith(b"\x89PNG")
    assert len(content) < MOST_PICTURE_BYTES
