"""People in the console: an owner and somebody they invite, side by side, each in a browser of their own."""

import time

from playwright.sync_api import expect

from pages import Console, menu, row, title

PASSWORD = "correct horse battery"


def test_two_people(server, chromium):
    """From an invitation to a role that has effect at once, a password that changes, and leaving."""
    # An account stays, also for the next run on the same data directory.
    name = f"Ada {time.time_ns()}"
    email = f"{name.replace(' ', '-').lower()}@example.com"
    owner = Console(server, chromium)
    page = owner.open("/settings/people")
    expect(page.get_by_role("row", name="admin you")).to_be_visible()
    owner.inspect("people")
    page.get_by_role("button", name="Invite", exact=True).click()
    page.get_by_role("textbox", name="Email").fill(email)
    page.get_by_role("button", name="Make the link").click()
    link = page.get_by_role("alertdialog").locator("pre").inner_text().strip()
    assert "/console/invitation#" in link
    page.get_by_role("button", name="Done").click()
    expect(row(page, email)).to_be_visible()

    guest = Console(server, chromium, sign_in=False)
    guest.expected += ["401", "403", "409", "WebSocket"]
    hers = guest.page
    hers.goto(link)
    expect(hers.get_by_role("heading", name="Join default")).to_be_visible()
    guest.inspect("invitation")
    hers.get_by_role("button", name="Make the account and join").click()
    expect(hers.get_by_text("Write your name.")).to_be_visible()
    hers.get_by_role("textbox", name="Your name").fill(name)
    hers.get_by_label("Choose a password").fill(PASSWORD)
    hers.get_by_role("button", name="Make the account and join").click()
    hers.wait_for_url("**/console/")
    assert "#" not in hers.evaluate("location.href + JSON.stringify(history.state)"), "the code stays nowhere"

    # The link worked once.
    late = Console(server, chromium, sign_in=False)
    late.expected += ["401", "409"]
    late.page.goto(link)
    expect(late.page.get_by_role("heading", name="This invitation does not work")).to_be_visible()
    late.close()

    # A role has effect at once: the developer is a viewer.
    owner.open("/settings/people")
    page.get_by_role("button", name=f"Role of {name}").click()
    page.get_by_role("option", name="Viewer").click()
    expect(page.get_by_text(f"{name} is viewer now")).to_be_visible()
    assert hers.evaluate(CREATE) == 403

    # She signs out and in again, and changes her password.
    guest.open("/settings/account")
    guest.inspect("account")
    hers.get_by_label("Present password").fill(PASSWORD)
    hers.get_by_label("New password").fill("another good one")
    hers.get_by_role("button", name="Change the password").click()
    expect(hers.get_by_text("The password is set")).to_be_visible()
    menu(hers, hers.get_by_role("button", name=f"Signed in as {name}"), "Sign out")
    expect(hers.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    for password, works in ((PASSWORD, False), ("another good one", True)):
        hers.get_by_role("textbox", name="Email").fill(email)
        hers.get_by_label("Password", exact=True).fill(password)
        hers.get_by_role("button", name="Continue").click()
        if not works:
            expect(hers.get_by_text("Email or password is wrong.")).to_be_visible()
    expect(title(hers)).to_have_text("Account")

    # Removed, she is in no team, and her account stays.
    owner.open("/settings/people")
    menu(page, page.get_by_role("button", name=f"More about {name}"), "Remove…")
    page.get_by_role("button", name=f"Remove {name}").click()
    expect(row(page, name)).to_have_count(0)
    assert hers.evaluate(CREATE) == 403
    owner.check_quiet()
    owner.close()
    guest.close()


#: Creates a sandbox as a page does, and returns the status.
CREATE = """() => fetch('/v2/sandboxes', {
    method: 'POST',
    headers: {'Content-Type': 'application/json', 'X-Cabana-Team': 'default'},
    body: '{"templateID": "base"}',
}).then((answer) => answer.status)"""
