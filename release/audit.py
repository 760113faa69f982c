"""Ask pip-audit whether pinned packages have known holes; say clearly where its database cannot be reached."""

import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

DATABASE = "https://pypi.org/pypi/pip/json"
ROOT = Path(__file__).parents[1]


def main() -> None:
    """Exit with 1 if a pinned version has a known vulnerability; with 0 and a remark if nothing can be looked up."""
    try:
        urllib.request.urlopen(DATABASE, timeout=20).close()
    except (urllib.error.URLError, OSError) as error:
        sys.stdout.write(f"audit skipped: the database of pip-audit cannot be reached ({error})\n")
        return
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line and line[0] != "#"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(pins))
        file.flush()
        command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "-r", file.name]
        sys.exit(subprocess.run(command).returncode)


if __name__ == "__main__":
    main()
