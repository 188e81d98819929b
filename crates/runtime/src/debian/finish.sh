# Runs inside the new root filesystem, after its packages are installed.
finish() {
    set -eu

    # The account that commands run as.
    groupadd --gid 1000 user
    useradd --uid 1000 --gid 1000 --groups sudo --create-home --shell /bin/bash user
    echo 'user ALL=(ALL:ALL) NOPASSWD: ALL' > /etc/sudoers.d/user
    chmod 0440 /etc/sudoers.d/user
    cat > /etc/profile.d/cabana.sh <<'END'
export PATH="$HOME/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
END

    # Places that everybody may write to, so that pip and npm need no sudo.
    mkdir -p /code
    chown user:user /code
    chmod 0777 /code
    chmod -R a+rwX /usr/local

    # The whole machine is the user's own: pip need not protect it.
    cat > /etc/pip.conf <<'END'
[global]
break-system-packages = true
disable-pip-version-check = true
END

    # Packages that are installed later: no translations, no daemons started behind the user's back.
    rm -f /etc/apt/apt.conf.d/99mmdebstrap
    echo 'Acquire::Languages "none";' > /etc/apt/apt.conf.d/90cabana
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
    chmod 0755 /usr/sbin/policy-rc.d

    # What the launcher binds over must be plain files.
    rm -f /etc/resolv.conf /etc/hosts /etc/hostname
    : > /etc/resolv.conf
    printf '127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n' > /etc/hosts
    echo sandbox > /etc/hostname

    # The first packages were written before dpkg knew what to leave out.
    find /usr/share/doc -mindepth 1 ! -type d ! -name copyright -delete
    find /usr/share/doc -mindepth 1 -type d -empty -delete
    find /usr/share/man /usr/share/info /usr/share/locale -mindepth 1 ! -type d ! -name locale.alias -delete
    find /usr/share/man /usr/share/locale -mindepth 1 -type d -empty ! -name 'man[1-9]' -delete

    extra_certificates

    # Traces of the build, and what must differ between machines.
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/ldconfig/* /var/cache/debconf/*-old /var/lib/dpkg/*-old
    rm -rf /tmp/* /var/tmp/* /run/* /root/.bash_history /root/.cache /root/.npm
    rm -f /etc/machine-id /var/lib/dbus/machine-id /etc/ssh/ssh_host_* /etc/.pwd.lock
    rm -f /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/subuid- /etc/subgid-
    find /var/log -type f -delete
}
