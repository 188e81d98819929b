//! Finds the server and the key: flags, then the environment, then the local server's files.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use cabana_client::{Client, Trust};
use cabana_server::Config;
use cabana_server::config::{Loaded, TlsMode};
use cabana_types::{Secret, env};

use crate::args::ServerArgs;
use crate::failure::Failure;

/// Limit on the size of a key file.
const MAX_KEY_BYTES: u64 = 4096;

/// A client for the server that the flags and the environment select.
pub(crate) fn client(args: &ServerArgs) -> Result<Client, Failure> {
    let (url, from_e2b) = url(args)?;
    let key = key(args, &url, from_e2b)?;
    if !url.starts_with("https://") {
        return Ok(Client::new(&url, &key)?);
    }
    Ok(Client::with_trust(&url, &key, &trust(&url, &local_server()?))?)
}

/// The URL, and whether it came from E2B's variable.
pub(crate) fn url(args: &ServerArgs) -> Result<(String, bool), Failure> {
    if let Some(url) = args.api_url.clone().filter(|u| !u.is_empty()) {
        return Ok((url, false));
    }
    if let Some(url) = variable(env::E2B_API_URL) {
        return Ok((url, true));
    }
    let local = local_server()?;
    Ok((local_url(&local, local.listen), false))
}

/// The configuration of a server on this machine. A file that is unreadable or invalid is ignored: the server itself
/// reports what is wrong with it.
pub(crate) fn local_server() -> Result<Config, Failure> {
    let nothing = Path::new("/dev/null");
    let loaded = Loaded::read(None, variable, &[])
        .or_else(|_| Loaded::read(Some(nothing), variable, &[]))
        .or_else(|_| Loaded::read(Some(nothing), |_| None, &[]))?;
    Ok(loaded.config)
}

/// Also trusts the local server: its own authority, or the certificate in its files, which does not name an address.
fn trust(url: &str, local: &Config) -> Trust {
    let server_name = match local.tls.mode {
        TlsMode::Files if is_loopback(url) => local.domain_name().map(|domain| format!("api.{domain}")),
        _ => None,
    };
    let authority = match local.tls.mode {
        TlsMode::Files => local.tls.certificate.clone(),
        _ => local.ca_file(),
    };
    Trust { authorities: vec![authority], skip_unreadable: true, server_name }
}

/// The URL of a listener for local connections.
pub(crate) fn local_url(server: &Config, mut listen: SocketAddr) -> String {
    if listen.ip().is_unspecified() {
        listen.set_ip(match listen.ip() {
            IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    let scheme = if server.is_encrypted() { "https" } else { "http" };
    format!("{scheme}://{listen}")
}

fn key(args: &ServerArgs, url: &str, from_e2b: bool) -> Result<Secret, Failure> {
    if let Some(key) = args.api_key.clone().filter(|k| !k.is_empty()) {
        return Ok(Secret::new(key));
    }
    // A key for E2B's cloud must not override the local server's key, so it has priority only together with its URL.
    let e2b = variable(env::E2B_API_KEY).map(Secret::new);
    if let (true, Some(key)) = (from_e2b, &e2b) {
        return Ok(key.clone());
    }
    // The local server's key is never sent to another server.
    if !is_loopback(url) {
        let missing = || {
            Failure::user_error(format!("there is no API key for {url}")).hint("set CABANA_API_KEY, or give --api-key")
        };
        return e2b.ok_or_else(missing);
    }
    let path = local_server()?.key_file();
    match read_key(&path) {
        Ok(key) => Ok(key),
        Err(error) => e2b.ok_or_else(|| no_key(&path, &error)),
    }
}

fn no_key(path: &Path, error: &std::io::Error) -> Failure {
    let failure = Failure::user_error(format!("there is no API key: {} cannot be read: {error}", path.display()));
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            failure.hint("run this as the user who runs the server (root), or set CABANA_API_KEY to the key")
        }
        _ => failure
            .hint("start a server with `cabana server`, which creates a key, or set CABANA_API_KEY and CABANA_API_URL"),
    }
}

fn read_key(path: &Path) -> std::io::Result<Secret> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_KEY_BYTES).read_to_string(&mut text)?;
    match text.trim() {
        "" => Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "it is empty")),
        key => Ok(Secret::new(key)),
    }
}

fn is_loopback(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if let Ok(address) = authority.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|a| a.is_loopback())
}

pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_key_stays_on_this_machine() {
        for local in [
            "http://127.0.0.1:3000",
            "http://localhost:3000/",
            "http://[::1]:80/x",
            "http://localhost",
            "http://127.0.0.1",
        ] {
            assert!(is_loopback(local), "{local}");
        }
        for other in [
            "http://10.0.0.1:3000",
            "http://localhost.example:1",
            "http://127.0.0.1.example",
            "http://127.0.0.1@evil:80",
            "http://evil/127.0.0.1:3000",
        ] {
            assert!(!is_loopback(other), "{other}");
        }
    }

    #[test]
    fn a_wildcard_listener_is_reached_by_loopback() {
        let server = |mode: &str| {
            let mode = mode.to_owned();
            let variable = |name: &str| (name == env::TLS_MODE).then(|| mode.clone());
            Loaded::read(Some(Path::new("/dev/null")), variable, &[]).expect("valid").config
        };
        let url = |mode, address: &str| local_url(&server(mode), address.parse().expect("address"));
        assert_eq!(url("off", "0.0.0.0:4000"), "http://127.0.0.1:4000");
        assert_eq!(url("off", "[::]:4000"), "http://[::1]:4000");
        assert_eq!(url("internal", "10.1.2.3:4000"), "https://10.1.2.3:4000");
    }
}
