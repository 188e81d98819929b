//! Where the web console is.

use std::net::SocketAddr;

use serde::Deserialize;

use super::Config;

/// The web console.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Console {
    /// Its origin; empty for the one that it is reached by.
    pub origin: String,
}

impl Console {
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let origin = &self.origin;
        let is_origin = || {
            let url = url::Url::parse(origin).ok()?;
            (matches!(url.scheme(), "http" | "https") && url.origin().ascii_serialization() == *origin).then_some(())
        };
        if !origin.is_empty() && is_origin().is_none() {
            return Err(("console.origin", format!("{origin:?} is not an origin like https://cabana.example.com")));
        }
        Ok(())
    }
}

impl Config {
    /// The configured origin of the console.
    pub fn console_origin(&self) -> Option<String> {
        (!self.console.origin.is_empty()).then(|| self.console.origin.clone())
    }

    /// Where a browser on this machine, or beyond the listener's address, finds the console; without a slash at its end.
    pub fn console_url(&self, address: SocketAddr) -> String {
        let scheme = if self.is_encrypted() { "https" } else { "http" };
        match (self.console_origin(), self.public_domain(address.port())) {
            (Some(origin), _) => origin,
            (None, Some(domain)) if self.is_encrypted() => format!("{scheme}://{domain}"),
            // A name, so that previews can have names below it.
            _ if address.ip().is_loopback() => format!("{scheme}://localhost:{}", address.port()),
            _ => format!("{scheme}://{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Loaded;

    fn url(text: &str) -> Result<String, String> {
        let directory = tempfile::tempdir().expect("directory");
        let file = directory.path().join("config.toml");
        std::fs::write(&file, text).expect("write");
        let loaded = Loaded::read(Some(&file), |_| None, &[]).map_err(|error| error.to_string())?;
        Ok(loaded.config.console_url("127.0.0.1:3000".parse().expect("address")))
    }

    #[test]
    fn where_the_console_is() {
        assert_eq!(url("").expect("default"), "http://localhost:3000");
        let tls = "domain = \"e.test\"\n[tls]\nmode = \"internal\"\n";
        assert_eq!(url(tls).expect("tls"), "https://e.test:3000");
        assert_eq!(url("[console]\norigin = \"https://c.test\"").expect("set"), "https://c.test");
        for wrong in
            ["c.test", "https://c.test/", "https://c.test/x", "ftp://c.test", "https://C.test", "https://u@c.test"]
        {
            let complaint = url(&format!("[console]\norigin = {wrong:?}")).expect_err(wrong);
            assert!(complaint.contains("is not an origin"), "{complaint}");
        }
    }
}
