"""Random edits by tools and by a model in this test agree byte by byte; random patches of git apply as `git apply` does, or change nothing."""

import base64
import json
import os
import random
import subprocess

import pytest

from tool_calls import Tools

EDITS = int(os.environ.get("CABANA_TEST_EDITS", "60"))
PATCHES = int(os.environ.get("CABANA_TEST_PATCHES", "15"))
SEED = int(os.environ.get("CABANA_TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))

WORDS = ["alpha", "beta", "gamma", "délta", "日本", "tab\there", "  blank", "", "end "]
NAMES = ["a.txt", "b.py", "sub/c.txt", "sub/deep/d.md", "with space.txt", "ünï.txt", "-dash", "e"]


@pytest.fixture
def tools(boxes, api) -> Tools:
    return Tools(api, boxes().id)


def tree(tools: Tools, root: str) -> dict[str, tuple[bytes, bool]]:
    """Every file below a directory with its content and whether it is executable, read without the tools for files."""
    script = (
        "import os,json,base64,sys\n"
        "found={}\n"
        f"for at,_,names in os.walk({root!r}):\n"
        "  for n in names:\n"
        "    p=os.path.join(at,n)\n"
        f"    found[os.path.relpath(p,{root!r})]=[base64.b64encode(open(p,'rb').read()).decode(),bool(os.stat(p).st_mode&0o100)]\n"
        "print(json.dumps(found))"
    )
    result = tools.ok("run_command", command="python3 -c \"$(cat)\"", stdin=script)
    path = result["data"]["outputPath"]
    text = result["output"]
    if path:
        text = b"".join(iter_file(tools, path)).decode()
    return {name: (base64.b64decode(data), x) for name, (data, x) in json.loads(text).items()}


def iter_file(tools: Tools, path: str):
    """A file of any size, in pieces that fit into an answer."""
    size = int(tools.ok("run_command", command=f"stat -c %s {path}")["output"])
    for start in range(0, size, 20_000):
        piece = tools.ok("run_command", command=f"tail -c +{start + 1} {path} | head -c 20000 | base64 -w0")["output"]
        yield base64.b64decode(piece)


def text(rng: random.Random) -> str:
    end = rng.choice(["\n", "\n", "\r\n"])
    lines = [rng.choice(WORDS) + (str(rng.randrange(5)) if rng.random() < 0.5 else "") for _ in range(rng.randrange(0, 40))]
    return end.join(lines) + (end if lines and rng.random() < 0.8 else "")


def test_random_edits_agree_with_a_model(tools):
    rng = random.Random(SEED)
    model: dict[str, str] = {}
    for number in range(EDITS):
        note = f"CABANA_TEST_SEED={SEED}, edit {number}"
        name = rng.choice(NAMES)
        at = f"m/{name}"
        kind = rng.random()
        if kind < 0.4 or name not in model:
            content, only = text(rng), rng.random() < 0.3
            result = tools.call("sandbox_write_file", {"path": at, "content": content, "create_only": only})
            if only and name in model:
                assert result["error"]["code"] == "already_exists", note
            else:
                assert result["status"] == "success", (note, result)
                assert result["data"]["created"] == (name not in model), note
                model[name] = content
        elif kind < 0.55:
            assert tools.call("sandbox_delete_file", {"path": at})["status"] == "success", note
            del model[name]
        else:
            find = rng.choice([w for w in WORDS if w])
            every = rng.random() < 0.5
            count = model[name].count(find)
            result = tools.call("sandbox_find_replace", {"path": at, "find": find, "replace": "NEW", "all": every})
            if count == 0:
                assert result["error"]["code"] == "no_match", (note, result)
            elif count > 1 and not every:
                assert result["error"]["code"] == "not_unique", (note, result)
            else:
                assert result["status"] == "success" and result["data"]["count"] == count, (note, result)
                model[name] = model[name].replace(find, "NEW")
    found = {name: data for name, (data, _) in tree(tools, "/home/user/m").items()}
    assert found == {name: content.encode() for name, content in model.items()}, f"CABANA_TEST_SEED={SEED}"


def git(where, *args: str, **options) -> subprocess.CompletedProcess:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "core.autocrlf=false"]
    return subprocess.run(["git", *identity, *args], cwd=where, capture_output=True, **options)


def test_patches_of_git_apply_as_git_does(tools, tmp_path):
    rng = random.Random(SEED)
    for number in range(PATCHES):
        note = f"CABANA_TEST_SEED={SEED}, patch {number}"
        here = tmp_path / str(number)
        here.mkdir()
        git(here, "init", "-q")
        files = {name: text(rng) for name in rng.sample([n for n in NAMES if n != "-dash"], rng.randrange(1, 5))}
        write(here, files)
        git(here, "add", "-A")
        git(here, "commit", "-qm", "old")
        changed = dict(files)
        for name in list(files):
            kind = rng.random()
            if kind < 0.2:
                del changed[name]
            elif kind < 0.4:
                changed[f"moved-{number}/{name}"] = changed.pop(name)
            elif kind < 0.9:
                lines = files[name].splitlines(keepends=True)
                for _ in range(rng.randrange(1, 4)):
                    at = rng.randrange(len(lines) + 1)
                    lines[at : at + rng.randrange(0, 3)] = [f"new {rng.randrange(100)}\n"]
                changed[name] = "".join(lines)
        if rng.random() < 0.5:
            changed["added.txt"] = text(rng)
        clear(here)
        write(here, changed)
        if changed and rng.random() < 0.3:
            os.chmod(here / rng.choice(list(changed)), 0o755)
        git(here, "add", "-A")
        patch = git(here, "diff", "--cached", "-M", "HEAD").stdout.decode()
        # The tree that the patch is applied to may have drifted.
        drifted = dict(files)
        if rng.random() < 0.5:
            for name in drifted:
                if rng.random() < 0.5:
                    drifted[name] = "drift\n" * rng.randrange(1, 3) + drifted[name]
        theirs = tmp_path / f"{number}-theirs"
        theirs.mkdir()
        git(theirs, "init", "-q")
        write(theirs, drifted)
        accepted = git(theirs, "apply", "--whitespace=nowarn", "-", input=patch.encode()).returncode == 0 if patch else True
        if not patch:
            continue
        where = f"p{number}"
        tools.ok("run_command", command=f"mkdir -p {where}")
        for name, content in drifted.items():
            tools.ok("write_file", path=f"{where}/{name}", content=content)
        before = tree(tools, f"/home/user/{where}")
        result = tools.call("sandbox_apply_patch", {"patch": patch, "cwd": where})
        after = tree(tools, f"/home/user/{where}")
        if result["status"] == "error":
            assert result["error"]["code"] == "patch_failed", (note, result)
            assert after == before, f"{note}: a refused patch changed something"
            assert not accepted, f"{note}: git applies it:\n{patch}\n{result['output']}"
        elif accepted:
            assert after == local(theirs), f"{note}\n{patch}"


def write(where, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())


def clear(where) -> None:
    for path in where.iterdir():
        if path.name != ".git":
            subprocess.run(["rm", "-rf", "--", path], check=True)


def local(where) -> dict[str, tuple[bytes, bool]]:
    files = (path for path in where.rglob("*") if path.is_file() and ".git" not in path.relative_to(where).parts)
    return {str(path.relative_to(where)): (path.read_bytes(), bool(path.stat().st_mode & 0o100)) for path in files}
