"""The commit of a study's code, which its tape records."""

from __future__ import annotations

import subprocess

_TIMEOUT = 5.0  # longest time of git; the disk may be slow [s]


def commit() -> str | None:
    """Return the commit of the repository around the working directory, or None if there is no repository.

    Returns
    -------
    str or None
        The hash of the commit. ``+changes`` follows it if files that git tracks differ from the commit.
    """
    try:
        head = _git("rev-parse", "--verify", "HEAD")
        changes = head and _git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):  # no git, or git takes too long
        return None
    return f"{head}+changes" if changes else head or None


def _git(*arguments: str) -> str:
    """Return the output of git; an empty text if git fails."""
    command = ["git", "--no-optional-locks", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    return process.stdout.strip() if process.returncode == 0 else ""
