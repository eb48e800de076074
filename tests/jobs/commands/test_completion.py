"""Completion as shells ask for it: by the script that the command prints, in a real bash."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kseg.jobs.cli import cli

ASK = """
source "$1"
COMP_WORDS=(kseg stat) COMP_CWORD=1
_kseg_completion kseg
echo "${COMPREPLY[@]}"
COMPREPLY=() COMP_WORDS=(kseg status --wa) COMP_CWORD=2
_kseg_completion kseg
echo "${COMPREPLY[@]}"
"""


def invoke(*words: str, **environment: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["completion", *words], env=environment)
    return result.exit_code, result.output


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_and_options_by_what_was_installed(tmp_path: Path) -> None:
    code, said = invoke("bash", "--install", XDG_DATA_HOME=str(tmp_path))
    file = tmp_path / "bash-completion" / "completions" / "kseg"
    assert (code, str(file) in said) == (0, True)
    program = tmp_path / "bin" / "kseg"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom kseg.jobs.cli import main\nmain()\n")
    program.chmod(0o755)
    path = f"{program.parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-c", ASK, "bash", str(file)],
        env={"PATH": path, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split("\n")[:2] == ["status", "--watch"], done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script_too(shell: str, tmp_path: Path) -> None:
    code, script = invoke(shell)
    assert (code, "_KSEG_COMPLETE" in script) == (0, True)
    code, _ = invoke(shell, "--install", XDG_DATA_HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))
    assert code == 0
    [file] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert file.read_text().strip() == script.strip()


def test_the_shell_is_that_of_the_environment_or_has_to_be_named() -> None:
    assert invoke(SHELL="/usr/bin/fish")[0] == 0
    code, said = invoke(SHELL="/bin/tcsh")
    assert (code, "name the shell" in said) == (2, True)
