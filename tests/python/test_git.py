"""The SDK's git helpers, synchronous and asynchronous, against a bare repository inside."""

import inspect

import pytest
from e2b import AsyncSandbox, Sandbox


async def done(answer):
    return await answer if inspect.isawaitable(answer) else answer


@pytest.fixture(params=[Sandbox, AsyncSandbox], ids=["sync", "async"])
async def box(server, request):
    sandbox = await done(request.param.create(timeout=120))
    yield sandbox
    await done(sandbox.kill())


async def test_git(box):
    git, files = box.git, box.files
    await done(git.configure_user("Ada", "ada@example.com"))
    assert await done(git.get_config("user.name")) == "Ada"
    await done(git.set_config("core.abbrev", "12"))
    assert await done(git.get_config("core.abbrev")) == "12"
    await done(git.init("origin.git", bare=True, initial_branch="main"))
    await done(git.init("work", initial_branch="main"))
    await done(git.remote_add("work", "origin", "/home/user/origin.git"))
    assert await done(git.remote_get("work", "origin")) == "/home/user/origin.git"

    await done(files.write("work/a.txt", "one\n"))
    assert [(file.name, file.status) for file in (await done(git.status("work"))).file_status] == [
        ("a.txt", "untracked")
    ]
    await done(git.add("work"))
    assert (await done(git.status("work"))).has_staged
    await done(git.commit("work", "First"))
    assert (await done(git.status("work"))).is_clean
    await done(git.push("work", "origin", "main"))

    await done(git.create_branch("work", "side"))
    assert (await done(git.branches("work"))).current_branch == "side"
    await done(git.checkout_branch("work", "main"))
    await done(git.delete_branch("work", "side"))
    assert (await done(git.branches("work"))).branches == ["main"]

    await done(files.write("work/a.txt", "changed\n"))
    await done(git.restore("work", ["a.txt"]))
    assert await done(files.read("work/a.txt")) == "one\n"
    await done(files.write("work/a.txt", "changed again\n"))
    await done(git.reset("work", mode="hard"))
    assert await done(files.read("work/a.txt")) == "one\n"

    await done(git.clone("/home/user/origin.git", "copy"))
    await done(files.write("copy/b.txt", "two\n"))
    await done(git.add("copy", files=["b.txt"]))
    await done(git.commit("copy", "Second", author_name="Bob", author_email="bob@example.com"))
    await done(git.push("copy"))
    await done(git.pull("work", "origin", "main"))
    assert await done(files.read("work/b.txt")) == "two\n"


async def test_stored_credentials(box):
    await done(box.git.dangerously_authenticate("ada", "not-a-real-password", host="git.example.com"))
    stored = await done(box.commands.run("cat ~/.git-credentials"))
    assert stored.stdout == "https://ada:not-a-real-password@git.example.com\n"
