//! Where this server is, as others see it, and the files of its credentials.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use super::Config;

/// Workload identity of sandboxes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Issuer of tokens; empty for the server's own URL.
    pub issuer: String,
}

impl Identity {
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let issuer = &self.issuer;
        let is_url =
            || url::Url::parse(issuer).is_ok_and(|url| url.has_host() && matches!(url.scheme(), "http" | "https"));
        if !issuer.is_empty() && (issuer.contains(['?', '#', '@', ' ']) || !is_url()) {
            return Err(("identity.issuer", format!("{issuer:?} is not a URL like https://api.example.com")));
        }
        Ok(())
    }
}

impl Config {
    /// The file with the key that seals secrets in the database.
    pub fn seal_key_file(&self) -> PathBuf {
        self.data_dir.join("seal.key")
    }

    /// URL of this server's API, without a slash at its end.
    pub fn public_url(&self, address: SocketAddr) -> String {
        let configured = self.identity.issuer.trim_end_matches('/');
        let scheme = if self.is_encrypted() { "https" } else { "http" };
        match self.public_domain(address.port()) {
            _ if !configured.is_empty() => configured.to_owned(),
            Some(domain) if self.is_encrypted() => format!("{scheme}://api.{domain}"),
            _ => format!("{scheme}://{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Loaded;

    #[test]
    fn the_url_follows_the_settings() {
        let dir = tempfile::tempdir().expect("directory");
        let file = dir.path().join("config.toml");
        let address = "127.0.0.1:3000".parse().expect("address");
        let url = |text: &str| {
            std::fs::write(&file, text).expect("written");
            Loaded::read(Some(&file), |_| None, &[]).map(|loaded| loaded.config.public_url(address))
        };
        assert_eq!(url("").expect("defaults"), "http://127.0.0.1:3000");
        assert_eq!(url("domain = \"e.test\"").expect("plain"), "http://127.0.0.1:3000");
        let tls = "domain = \"e.test\"\n[tls]\nmode = \"internal\"\n";
        assert_eq!(url(tls).expect("TLS"), "https://api.e.test:3000");
        let issuer = |issuer: &str| url(&format!("[identity]\nissuer = \"{issuer}\""));
        assert_eq!(issuer("https://a.example.com/").expect("configured"), "https://a.example.com");
        for wrong in
            ["a.example.com", "ftp://a.example.com", "https://", "https://a.example.com/?x", "https://u@a.example.com"]
        {
            let error = issuer(wrong).expect_err(wrong).to_string();
            assert!(error.contains("identity.issuer"), "{error}");
        }
    }
}
