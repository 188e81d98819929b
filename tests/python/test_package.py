"""The Debian package: installed into a fresh root, upgraded, removed and purged there. Data is never deleted."""

import configparser
import gzip
import shutil
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

from server import CABANA, ROOT

XTASK = CABANA.with_name("xtask")
DATA = "var/lib/cabana"


def build(version: str, out: Path) -> Path:
    command = [XTASK, "package", "--program", CABANA, "--version", version, "--out", out]
    subprocess.run(command, check=True, cwd=ROOT)
    [package] = out.glob(f"cabana_{version}_*.deb")
    return package


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("packages")
    return {version: build(version, out) for version in ("0.1.0", "0.1.1")}


@pytest.fixture
def root(server, tmp_path):
    """A Debian system without Cabana: the base template with an overlay for changes."""
    recipe, base = (server.data / "base-build").read_text().split()
    upper, work, target = tmp_path / "upper", tmp_path / "work", tmp_path / "root"
    for directory in (upper, work, target):
        directory.mkdir()
    lower = server.data / "pool/templates" / base / "rootfs"
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, target], check=True)
    try:
        yield target
    finally:
        subprocess.run(["umount", target], check=True)


def inside(root: Path, *command: str, check: bool = True) -> subprocess.CompletedProcess:
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(["chroot", root, *command], env=environment, capture_output=True, text=True)
    assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done


def install(root: Path, package: Path) -> None:
    shutil.copy(package, root / "cabana.deb")
    # The server's dependencies are not in the base template; that their names exist is checked below.
    inside(root, "dpkg", "--force-depends", "--install", "/cabana.deb")
    (root / "cabana.deb").unlink()


def test_the_program_works_in_a_fresh_root(root, packages):
    install(root, packages["0.1.0"])
    assert inside(root, "cabana", "--version").stdout.startswith("cabana ")
    report = inside(root, "cabana", "doctor", check=False).stdout
    [guest] = [line for line in report.splitlines() if "guest program" in line]
    assert "embedded" in guest, guest
    enabled = root / "etc/systemd/system/multi-user.target.wants/cabana.service"
    assert enabled.is_symlink()
    for installed in ("systemd/system/cabana.service", "bash-completion/completions/cabana"):
        assert (root / "usr/lib" / installed).exists() or (root / "usr/share" / installed).exists(), installed


def test_an_upgrade_keeps_data_and_configuration(root, packages):
    install(root, packages["0.1.0"])
    kept = root / DATA / "cabana.db"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text("sandboxes")
    configuration = root / "etc/cabana/config.toml"
    changed = configuration.read_text() + '\nlisten = "127.0.0.1:4000"\n'
    configuration.write_text(changed)

    install(root, packages["0.1.1"])
    assert "0.1.1" in inside(root, "dpkg-query", "-W", "cabana").stdout
    assert configuration.read_text() == changed
    assert kept.read_text() == "sandboxes"

    inside(root, "dpkg", "--remove", "cabana")
    assert not (root / "usr/bin/cabana").exists()
    assert configuration.read_text() == changed
    assert kept.read_text() == "sandboxes"

    # A reinstalled package uses the existing data and configuration.
    install(root, packages["0.1.1"])
    assert configuration.read_text() == changed

    said = inside(root, "dpkg", "--purge", "cabana")
    assert not configuration.exists()
    assert kept.read_text() == "sandboxes"
    assert "/var/lib/cabana" in said.stderr


def test_the_files_are_as_a_package_should_have_them(packages, tmp_path):
    package = packages["0.1.0"]
    subprocess.run(["dpkg-deb", "--extract", package, tmp_path / "files"], check=True)
    subprocess.run(["dpkg-deb", "--control", package, tmp_path / "control"], check=True)
    for path in (tmp_path / "files").rglob("*"):
        status = path.lstat()
        assert (status.st_uid, status.st_gid) == (0, 0), path
        expected = 0o755 if path.is_dir() or path.name == "cabana" and path.parent.name == "bin" else 0o644
        assert stat.S_IMODE(status.st_mode) == expected, path
    for script in ("postinst", "prerm", "postrm"):
        subprocess.run(["sh", "-n", tmp_path / "control" / script], check=True)
    assert (tmp_path / "control/conffiles").read_text() == "/etc/cabana/config.toml\n"
    # Everything in the configuration file is a comment: the defaults hold.
    assert tomllib.loads((tmp_path / "files/etc/cabana/config.toml").read_text()) == {}
    subprocess.run(["bash", "-n", tmp_path / "files/usr/share/bash-completion/completions/cabana"], check=True)
    for page in (tmp_path / "files/usr/share/man/man1").iterdir():
        assert gzip.decompress(page.read_bytes()).startswith(b".ie"), page
    # Tests run a program that is hardly optimised.
    assert (tmp_path / "files/usr/bin/cabana").stat().st_size < 130_000_000


def test_the_dependencies_exist(packages):
    depends = subprocess.check_output(["dpkg-deb", "--field", packages["0.1.0"], "Depends"], text=True)
    for dependency in depends.strip().split(", "):
        name = dependency.split(" ")[0]
        known = subprocess.run(["dpkg-query", "-W", name], capture_output=True).returncode == 0
        assert known or subprocess.run(["apt-cache", "show", name], capture_output=True).returncode == 0, name


def test_the_unit_is_valid_and_leaves_sandboxes_alone(tmp_path):
    text = (ROOT / "packaging/cabana.service").read_text()
    unit = tmp_path / "cabana.service"
    # The program of the package is not installed here.
    unit.write_text(text.replace("/usr/bin/cabana", str(CABANA)))
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    complaints = [line for line in verified.stderr.splitlines() if "cabana" in line]
    assert verified.returncode == 0 and not complaints, verified.stderr

    settings = configparser.ConfigParser(strict=False, interpolation=None)
    settings.optionxform = str
    settings.read_string(text)
    service = settings["Service"]
    assert service["KillMode"] == "process"
    assert service["Restart"] == "on-failure"
    assert service["RuntimeDirectoryPreserve"] == "yes"
    assert service["OOMPolicy"] == "continue"
    assert not {"PrivateTmp", "PrivateMounts", "ProtectSystem", "PrivateNetwork"} & set(service)
