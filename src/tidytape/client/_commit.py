"""The commit of a study's code, which its tape records."""

from __future__ import annotations

import subprocess

_PATIENCE = 5.0  # longest time of git; the disk may be slow [s]


def commit() -> str | None:
    """Return the commit of the repository around the working directory, or None where there is no repository.

    Returns
    -------
    str or None
        The hash of the commit; ``+changes`` follows it where files that git follows differ from the commit.
    """
    try:
        head = _git("rev-parse", "--verify", "HEAD")
        changed = head and _git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):  # no git, or git takes too long
        return None
    return f"{head}+changes" if changed else head or None


def _git(*arguments: str) -> str:
    """Return the output of git; an empty text if it fails."""
    command = ["git", "--no-optional-locks", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
