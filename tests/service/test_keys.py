"""Keys: shown once, stored as hashes, rotated without a restart."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from tidytape.budget import TIERS
from tidytape.errors import QueryError, TidytapeError
from tidytape.service import Key, KeyFile, Keys, hashed


def test_a_new_key_is_found_and_only_its_hash_is_stored(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    key, secret = KeyFile(file).new("Enterprise")
    assert KeyFile(file).find(secret, now=0) == key
    assert key.tier == "enterprise"
    assert secret not in file.read_text()
    assert len(secret) >= 43  # 32 bytes in base 64
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_keys_added_while_serving_are_seen_and_removed_ones_are_not(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    served = KeyFile(file)
    first, first_secret = KeyFile(file).new("basic")
    assert served.find(first_secret, now=0) == first
    second, second_secret = KeyFile(file).new("advanced")
    assert served.find(second_secret, now=0) == second
    file.write_text(json.dumps([entry for entry in json.loads(file.read_text()) if entry["id"] != first.id]))
    assert served.find(first_secret, now=0) is None


def test_a_revoked_key_is_unknown_and_the_others_stay(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    first, first_secret = KeyFile(file).new("basic")
    second, second_secret = KeyFile(file).new("advanced")
    served = KeyFile(file)
    assert served.find(first_secret, now=0) == first
    assert KeyFile(file).revoke(first.id) == first
    assert served.find(first_secret, now=0) is None
    assert served.find(second_secret, now=0) == second
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(QueryError, match="the id of a key"):
        KeyFile(file).revoke(first.id)
    with pytest.raises(TidytapeError, match="there is no key file"):
        KeyFile(tmp_path / "other.json").revoke(first.id)


def test_an_expired_key_is_unknown(tmp_path: Path) -> None:
    key, secret = KeyFile(tmp_path / "keys.json").new("basic", expires=4_000_000_000)
    keys = KeyFile(tmp_path / "keys.json")
    assert keys.find(secret, now=3_999_999_999) == key
    assert keys.find(secret, now=4_000_000_000) is None


@pytest.mark.parametrize(
    "content",
    ["", "{", "{}", "[1]", '[{"id": "x"}]', '[{"id":"x","sha256":"","tier":"gold","created":0}]'],
)
def test_a_file_that_is_not_of_keys_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "keys.json"
    file.write_text(content)
    with pytest.raises(TidytapeError, match="is not a file of keys"):
        KeyFile(file).all()


def test_a_key_of_a_tier_that_there_is_not_is_named_by_its_id(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    tiers = {"Desk": TIERS["basic"], "student": TIERS["basic"]}
    known, _ = KeyFile(file).new("enterprise")
    strange, secret = KeyFile(file).new("basic")
    with pytest.raises(TidytapeError) as caught:
        KeyFile(file, tiers=tiers | {"ENTERPRISE": TIERS["enterprise"]}).all()
    assert str(caught.value) == (
        f"{file}: key '{strange.id}' is of tier 'basic', and the tiers are Desk, student, ENTERPRISE; a file of tiers "
        "(--tiers) names others"
    )
    with pytest.raises(TidytapeError) as caught:
        KeyFile(file, tiers=tiers).revoke(strange.id)
    told = f"key '{known.id}' is of tier 'enterprise', key '{strange.id}' is of tier 'basic', and the tiers are Desk,"
    assert told in str(caught.value)
    assert secret not in str(caught.value)
    assert strange.sha256 not in str(caught.value)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TidytapeError, match="there is no key file"):
        KeyFile(tmp_path / "keys.json").all()


def test_an_unknown_tier_is_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="did you mean 'basic'"):
        KeyFile(tmp_path / "keys.json").new("basik")
    assert not (tmp_path / "keys.json").exists()


def test_a_running_service_keeps_its_keys_when_the_file_becomes_garbage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys.json"
    key, secret = KeyFile(file).new("basic")
    served = KeyFile(file)
    assert served.find(secret, now=0) == key
    for garbage in ("", "[", '[{"id": 1, "sha256": 2, "tier": "basic", "created": "x"}]'):
        file.write_text(garbage)
        assert served.find(secret, now=0) == key
    assert "the keys read before stay in force" in caplog.text
    file.unlink()
    assert served.find(secret, now=0) == key


def test_a_running_service_says_that_its_file_is_gone_and_counts_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys.json"
    key, secret = KeyFile(file).new("basic")
    served = KeyFile(file)
    for _ in range(2):
        assert served.find(secret, now=0) == key
    content = file.read_bytes()
    file.unlink()
    for _ in range(3):
        assert served.find(secret, now=0) == key
    assert (served.faults, caplog.text.count("there is no key file")) == (1, 1)
    file.write_bytes(content)
    assert served.find(secret, now=0) == key
    file.unlink()
    assert served.find(secret, now=0) == key
    assert (served.faults, caplog.text.count("there is no key file")) == (2, 2)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permission")
def test_keys_that_anybody_could_have_added_are_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys.json"
    key, secret = KeyFile(file).new("basic")
    served = KeyFile(file)
    assert served.find(secret, now=0) == key
    file.chmod(0o666)
    intruder = Key("intruder", hashed("guess"), "enterprise", created=0)
    file.write_text(json.dumps([asdict(key), asdict(intruder)]))
    assert served.find("guess", now=0) is None
    assert served.find(secret, now=0) == key
    assert served.faults == 1
    assert "every user of this machine can write" in caplog.text
    with pytest.raises(TidytapeError, match="chmod 600"):
        KeyFile(file).all()
    file.chmod(0o600)
    assert served.find("guess", now=0) == intruder


_MAKE_KEYS = """
import sys
from tidytape.service._accounts import KeyFile
for _ in range(10):
    print(KeyFile(sys.argv[1]).new("basic")[1])
"""


@pytest.mark.slow
def test_keys_made_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    command = [sys.executable, "-c", _MAKE_KEYS, str(file)]
    makers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    secrets = [line for maker in makers for line in maker.communicate(timeout=60)[0].split()]
    served = KeyFile(file)
    assert len(served.all()) == 40
    assert all(served.find(one, now=0) for one in secrets)


@pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")
def test_a_key_revoked_through_a_link_is_revoked_in_the_file(tmp_path: Path) -> None:
    file, link = tmp_path / "keys.json", tmp_path / "etc" / "keys.json"
    key, secret = KeyFile(file).new("basic")
    link.parent.mkdir()
    link.symlink_to(Path("..") / file.name)
    served = KeyFile(file)
    assert served.find(secret, now=0) == key
    KeyFile(link).revoke(key.id)
    assert served.find(secret, now=0) is None
    _, other = KeyFile(link).new("basic")
    assert served.find(other, now=0) is not None
    assert link.is_symlink()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes")
def test_a_changed_file_is_for_the_same_users_as_before(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    KeyFile(file).new("basic")
    owner = (12345, 12345) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(file, *owner)
    for before, after in [(0o640, 0o640), (0o666, 0o664)]:
        file.chmod(before)
        KeyFile(file).new("basic")
        status = file.stat()
        assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (after, *owner)


def test_a_key_is_found_without_a_look_at_the_others() -> None:
    class Counted(list[Key]):
        reads = 0

        def __iter__(self) -> Iterator[Key]:
            self.reads += 1
            return super().__iter__()

    entries = Counted(Key(str(number), hashed(str(number)), "basic", created=0) for number in range(100))
    keys = Keys(entries)
    reads = entries.reads
    for number in range(100):
        key = keys.find(str(number), now=0)
        assert key is not None
        assert key.id == str(number)
        assert keys.has(str(number), now=0)
    assert keys.find("100", now=0) is None
    assert not keys.has("100", now=0)
    assert entries.reads == reads


def test_an_id_counts_until_its_last_key_has_expired(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    ends = [5, 9, 7]
    file.write_text(json.dumps([asdict(Key("a", hashed(str(end)), "basic", 0, end)) for end in ends]))
    keys = KeyFile(file)
    assert [keys.has("a", now=now) for now in (4, 6, 8, 9)] == [True, True, True, False]
    assert [keys.find("5", now=now) is not None for now in (4, 5)] == [True, False]
    KeyFile(file).revoke("a")
    assert not keys.has("a", now=4)
