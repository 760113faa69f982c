"""Install a wheel into an empty environment and try it there, as a user would.   python release/smoke.py dist/*.whl"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(wheel: Path) -> None:
    """Fail with the output of the first command that does not work."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "env", with_pip=True)
        bin_folder = place / "env" / ("Scripts" if os.name == "nt" else "bin")
        run(
            [bin_folder / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel.resolve()],
            place,
        )
        fastgtn = bin_folder / "fastgtn"
        version = run([fastgtn, "--version"], place).strip()
        assert version in wheel.name, f"{wheel.name} installs version {version}"
        checks = json.loads(run([fastgtn, "doctor", "--json"], place))["checks"]
        assert set(checks.values()) == {"works"}, checks
        demo = json.loads(run([fastgtn, "demo", "--json", "--out", place / "run"], place))
        assert demo["metapaths"][0]["planted"], "the demo does not find the planted meta-path"
        run([fastgtn, "explain", place / "run"], place)
        assert (place / "run" / "report.html").is_file()
    sys.stdout.write(f"{wheel.name} installs and works on Python {sys.version.split()[0]}\n")


def run(command: list[str | Path], folder: Path) -> str:
    """The output of a command that sees neither this repository nor the user's packages."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "FASTGTN_DATA")}
    done = subprocess.run([str(part) for part in command], cwd=folder, env=clean, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
