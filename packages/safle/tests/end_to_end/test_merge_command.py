"""The installed command, as an operator types it: a merge that stops, and what is accepted."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

SAFLE = Path(sys.executable).with_name("safle")


def test_accepted_points_are_in_the_merged_schema(tmp_path: Path) -> None:
    def ask(line: str, code: int = 0) -> str:
        done = subprocess.run(
            [SAFLE, *shlex.split(line)], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stderr

    sexes = {"a": "FM", "b": "FM", "c": ["weiblich", "männlich"], "d": "FM"}
    for site, (female, male) in sexes.items():
        months = 12 if site == "d" else 1
        rows = [
            f"{(30 + at % 50) * months},{male if at % 3 else female},{'ill' if at % 2 else 'well'}"
            for at in range(100)
        ]
        (tmp_path / f"{site}.csv").write_text("\n".join(["age,sex,label", *rows]))
        ask(f"schema draft {site}.csv -o {site}.toml")
    merge = "schema merge a.toml b.toml c.toml d.toml -o schema.toml"
    said = ask(merge, code=1)
    assert "units:age: column 'age': d.toml says 380 to 930" in said
    assert "levels:sex: column 'sex': levels are 'F', 'M' in a.toml, b.toml, d.toml; 'm" in said
    assert "Traceback" not in said
    assert not (tmp_path / "schema.toml").exists()
    # What the error says can be pasted.
    ask(f"{merge} {said[said.rindex(': --accept') + 2 :]}")
    comments = [
        line.split(": column")[0]
        for line in (tmp_path / "schema.toml").read_text().splitlines()
        if line.startswith("#")
    ]
    assert comments == ["# accepted units:age", "# accepted levels:sex"]
    ask("encoder make --schema schema.toml -o encoder.safetensors")
