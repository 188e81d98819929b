//! Configuration of the server: one typed struct, filled from several sources (`load.rs`). To add a setting: add it to
//! `defaults.toml` beside this file, with its description and environment variable, and to the struct here; if it
//! needs a range, to [`Config::check`].

mod accounts;
mod billing;
mod chat;
mod console;
mod identity;
mod io;
mod listener;
mod load;
mod models;
mod network;
mod quotas;
mod retention;
mod tools;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub use cabana_image::sources::Sources;
use cabana_storage::ColdConfig;
use cabana_storage::cold::Timeouts;
use cabana_types::egress::Preset;
use cabana_types::limits::{CPU_COUNT, DISK_MB, MAX_TIMEOUT_SECONDS, MEMORY_MB};
use serde::Deserialize;

pub use accounts::Accounts;
pub use billing::Billing;
pub use chat::Chat;
pub use console::Console;
pub use identity::Identity;
pub use io::Io;
pub use listener::{Connections, Rates, Tls, TlsMode};
pub use load::{Loaded, Source};
pub(crate) use models::{DEMO, MAX_PROVIDER, check_key, check_model, check_models, check_provider_name, check_url};
pub use models::{Models, Price, Provider};
pub use network::{Egress, Network};
pub use retention::{Archive, Retention};
pub use tools::Tools;

/// The compiled-in defaults, commented.
pub const DEFAULTS: &str = include_str!("defaults.toml");
/// The configuration file that is read if it exists.
pub const DEFAULT_FILE: &str = "/etc/cabana/config.toml";

/// All settings. `defaults.toml` documents each.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Address of the listener.
    pub listen: SocketAddr,
    /// Allows an address other than loopback without TLS.
    pub allow_insecure_listen: bool,
    /// Directory of all persistent data.
    pub data_dir: PathBuf,
    /// Domain under which sandboxes have host names; empty for none.
    pub domain: String,
    /// TLS of the listener.
    pub tls: Tls,
    pub connections: Connections,
    pub rates: Rates,
    /// How people sign in.
    pub accounts: Accounts,
    /// The web console.
    pub console: Console,
    /// Limits of sandboxes.
    pub limits: Limits,
    /// Network of sandboxes.
    pub network: Network,
    /// Where sandboxes may connect.
    pub egress: Egress,
    /// Isolation of sandboxes.
    pub isolation: Isolation,
    /// Disks of sandboxes.
    pub pool: Pool,
    pub io: Io,
    /// Sampling of resource usage.
    pub metrics: Metrics,
    /// Agent tools.
    pub tools: Tools,
    /// Chats.
    pub chat: Chat,
    /// Models of chats.
    pub models: Models,
    /// Delivery of events to webhooks.
    pub webhooks: Webhooks,
    /// Builds of templates.
    pub builds: Builds,
    /// Workload identity.
    pub identity: Identity,
    /// Sources of images.
    pub images: Sources,
    /// Pausing with memory.
    pub pause: Pause,
    /// Storage of archived disks.
    pub archive: Archive,
    /// How long data is kept.
    pub retention: Retention,
    /// What use costs.
    pub billing: Billing,
}

/// Limits of sandboxes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Maximum number of running sandboxes.
    pub max_sandboxes: u32,
    /// Default number of virtual CPUs.
    pub cpu_count: u32,
    /// Default memory, MiB.
    pub memory_mb: u32,
    /// Default disk size, MiB.
    pub disk_mb: u32,
    /// Maximum number of virtual CPUs of one sandbox; 0 for the machine's.
    pub max_cpu_count: u32,
    /// Maximum memory of one sandbox, MiB; 0 for the machine's.
    pub max_memory_mb: u32,
    /// Maximum disk size of one sandbox, MiB; 0 for no limit.
    pub max_disk_mb: u32,
    /// The memory limits of running sandboxes together, as a multiple of the machine's memory; 0 for no limit.
    pub memory_overcommit: u32,
    /// Their disk limits together, as a multiple of the pool's size; 0 for no limit.
    pub disk_overcommit: u32,
    /// Longest timeout of a sandbox, hours.
    pub max_timeout_hours: u32,
    /// Timeout of the creation of a sandbox, seconds.
    pub start_seconds: u32,
    /// Timeout of its start and ready commands, seconds.
    pub ready_seconds: u32,
    /// Maximum number of sandboxes of one team, including paused and failed ones.
    pub max_team_sandboxes: u32,
    /// Maximum number of snapshots of one team.
    pub max_team_snapshots: u32,
    /// Memory that sandboxes together leave to the rest of the machine, MiB; 0 for a share of it.
    pub reserved_memory_mb: u32,
}

/// How sandboxes are isolated.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Isolation {
    /// The backend for sandboxes that ask for none.
    pub default: String,
    /// Whether set-uid programs gain nothing in new sandboxes.
    pub no_new_privileges: bool,
}

/// The storage pool.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The kind of pool.
    pub kind: PoolKind,
    /// Size of its image, GiB; 0 for a share of what is free.
    pub image_gb: u32,
}

/// Kind of the storage pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PoolKind {
    /// btrfs if possible, otherwise directories.
    Auto,
    /// btrfs.
    Btrfs,
    /// Plain directories, without disk limits.
    Directory,
}

/// Sampling of resource usage.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Seconds between two samples of a sandbox.
    pub interval_seconds: u32,
}

/// Builds of templates.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Builds {
    /// Largest uploaded archive, MiB.
    pub max_upload_mb: u32,
    /// Total size of the archives kept per team, MiB.
    pub max_team_uploads_mb: u32,
    /// Maximum number of concurrent builds; others wait.
    pub concurrent: u32,
    /// Timeout of a build, minutes.
    pub timeout_minutes: u32,
    /// Days for which results of steps, images and uploads are kept after their last use.
    pub cache_days: u32,
    /// Days for which a build without a tag is kept.
    pub keep_untagged_days: u32,
}

/// Delivery of events to webhooks.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhooks {
    /// Allows webhooks on this machine and in private networks.
    pub allow_private: bool,
    /// Timeout of one delivery, seconds.
    pub timeout_seconds: u32,
    /// First retry delay, seconds; doubled after each failure.
    pub retry_seconds: u32,
}

/// Pausing with memory.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Whether to reclaim the memory of paused sandboxes as far as the kernel can.
    pub reclaim_memory: bool,
    /// Maximum number of sandboxes paused with memory; 0 for no limit.
    pub max_in_memory: u32,
    /// Maximum memory of all paused sandboxes, MiB; 0 for half of the machine's.
    pub max_memory_mb: u32,
}

/// Why the configuration is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("read the configuration file {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// A value is invalid.
    #[error("{origin}: {message}")]
    Invalid {
        /// Where the value comes from.
        origin: Source,
        /// What is wrong, and what to do.
        message: String,
    },
}

impl Config {
    /// The configured domain, if there is one.
    pub fn domain(&self) -> Option<String> {
        (!self.domain.is_empty()).then(|| self.domain.clone())
    }

    /// The domain without a port.
    pub fn domain_name(&self) -> Option<String> {
        let domain = self.domain()?;
        Some(domain.rsplit_once(':').map_or(domain.as_str(), |(name, _)| name).to_ascii_lowercase())
    }

    /// The domain for clients: with the listener's port, unless another was configured or it is the default port.
    pub fn public_domain(&self, port: u16) -> Option<String> {
        let domain = self.domain()?;
        let add_port = self.is_encrypted() && port != HTTPS_PORT && !domain.contains(':');
        Some(if add_port { format!("{domain}:{port}") } else { domain })
    }

    /// Whether the listener uses TLS.
    pub fn is_encrypted(&self) -> bool {
        self.tls.mode != TlsMode::Off
    }

    /// Directory of the internal certificate authority.
    pub fn tls_dir(&self) -> PathBuf {
        self.data_dir.join("tls")
    }

    /// Certificate of the internal authority.
    pub fn ca_file(&self) -> PathBuf {
        self.tls_dir().join("ca.pem")
    }

    /// The database file.
    pub fn database(&self) -> PathBuf {
        self.data_dir.join("cabana.db")
    }

    /// Settings of cold storage.
    pub fn cold_storage(&self) -> ColdConfig {
        let archive = &self.archive;
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let inside = || self.data_dir.join("archive").to_string_lossy().into_owned();
        ColdConfig {
            location: text(&archive.location).unwrap_or_else(inside),
            endpoint: text(&archive.endpoint),
            region: text(&archive.region),
            key_id: text(&archive.key_id),
            secret: (!archive.secret.expose().is_empty()).then(|| archive.secret.clone()),
            allow_http: archive.allow_http,
            timeouts: Timeouts::default(),
        }
    }

    /// The file with an API key for the command line on this machine.
    pub fn key_file(&self) -> PathBuf {
        self.data_dir.join("key")
    }

    /// Checks what types cannot. An error names the setting and what to do.
    fn check(&self) -> Result<(), (&'static str, String)> {
        if !self.listen.ip().is_loopback() && !self.is_encrypted() && !self.allow_insecure_listen {
            return Err((
                "listen",
                format!(
                    "{} can be reached from other machines, but keys and traffic would travel unencrypted: set tls.mode, listen on \
                     127.0.0.1 behind a proxy that speaks TLS, or set allow_insecure_listen = true if you trust the network",
                    self.listen
                ),
            ));
        }
        if !self.data_dir.is_absolute() || self.data_dir == Path::new("/") {
            return Err(("data_dir", format!("{} is not an absolute path to a directory", self.data_dir.display())));
        }
        if self.domain.contains(['/', '*', ' ', '@']) || self.domain.starts_with('.') {
            let text =
                format!("{:?} is not a domain: write it like sandboxes.example.com or e2b.test:8443", self.domain);
            return Err(("domain", text));
        }
        if self.tls.mode == TlsMode::Files {
            for (name, path) in [("tls.certificate", &self.tls.certificate), ("tls.key", &self.tls.key)] {
                if !path.is_absolute() {
                    return Err((name, format!("{:?} is not an absolute path to a PEM file", path.display())));
                }
            }
            if self.domain.is_empty() {
                return Err(("tls.mode", "\"files\" needs domain: the name that the certificate is for".to_owned()));
            }
        }
        self.identity.check()?;
        self.console.check()?;
        self.models.check()?;
        self.billing.check()?;
        if self.egress.default == Preset::Registries && self.egress.registries.is_empty() && !self.egress.own_registries
        {
            let text = "\"registries\" needs egress.registries, or sandboxes could connect to nothing; for that, write \"none\"";
            return Err(("egress.default", text.to_owned()));
        }
        self.images.check().map_err(|error| ("images", cabana_types::error::chain(&error)))?;
        let location = &self.archive.location;
        if !location.is_empty() && !location.starts_with('/') && !location.starts_with("s3://") {
            let text = format!("{location:?} is neither an absolute path nor s3://bucket/prefix");
            return Err(("archive.location", text));
        }
        let limits = &self.limits;
        let checks = [
            ("limits.max_sandboxes", limits.max_sandboxes, 1..=100_000, false),
            ("limits.cpu_count", limits.cpu_count, CPU_COUNT, false),
            ("limits.memory_mb", limits.memory_mb, MEMORY_MB, false),
            ("limits.disk_mb", limits.disk_mb, DISK_MB, false),
            ("limits.max_cpu_count", limits.max_cpu_count, CPU_COUNT, true),
            ("limits.max_memory_mb", limits.max_memory_mb, MEMORY_MB, true),
            ("limits.max_disk_mb", limits.max_disk_mb, DISK_MB, true),
            ("limits.memory_overcommit", limits.memory_overcommit, 0..=1000, false),
            ("limits.disk_overcommit", limits.disk_overcommit, 0..=100_000, false),
            ("limits.max_timeout_hours", limits.max_timeout_hours, 1..=MAX_TIMEOUT_HOURS, false),
            ("limits.start_seconds", limits.start_seconds, 1..=3600, false),
            ("limits.ready_seconds", limits.ready_seconds, 1..=3600, false),
            ("limits.max_team_sandboxes", limits.max_team_sandboxes, 1..=10_000_000, false),
            ("limits.max_team_snapshots", limits.max_team_snapshots, 0..=1_000_000, false),
            ("limits.reserved_memory_mb", limits.reserved_memory_mb, 64..=67_108_864, true),
            ("network.spare_slots", self.network.spare_slots, 0..=256, false),
            ("egress.event_seconds", self.egress.event_seconds, 1..=3600, false),
            ("metrics.interval_seconds", self.metrics.interval_seconds, 1..=3600, false),
            ("builds.max_upload_mb", self.builds.max_upload_mb, 1..=1_048_576, false),
            ("builds.max_team_uploads_mb", self.builds.max_team_uploads_mb, 1..=67_108_864, false),
            ("builds.concurrent", self.builds.concurrent, 1..=64, false),
            ("builds.timeout_minutes", self.builds.timeout_minutes, 1..=1440, false),
            ("builds.cache_days", self.builds.cache_days, 1..=3650, false),
            ("builds.keep_untagged_days", self.builds.keep_untagged_days, 1..=3650, false),
            ("webhooks.timeout_seconds", self.webhooks.timeout_seconds, 1..=60, false),
            ("webhooks.retry_seconds", self.webhooks.retry_seconds, 1..=3600, false),
            ("pause.max_in_memory", self.pause.max_in_memory, 0..=100_000, false),
            ("pause.max_memory_mb", self.pause.max_memory_mb, 0..=u32::MAX, false),
            ("retention.tombstone_days", self.retention.tombstone_days, 0..=3650, false),
            ("retention.archive_after_days", self.retention.archive_after_days, 0..=36500, false),
            ("retention.recycle_after_days", self.retention.recycle_after_days, 0..=36500, false),
            ("retention.failed_hours", self.retention.failed_hours, 0..=87600, false),
            ("retention.audit_days", self.retention.audit_days, crate::audit::MIN_DAYS..=36500, true),
        ];
        self.connections.check()?;
        let clients = self.connections.ranges().into_iter().chain(self.rates.ranges());
        let clients = clients.chain(self.io.ranges()).chain(self.tools.ranges()).chain(self.chat.ranges());
        let clients = clients.map(|(name, value, range)| (name, value, range, false));
        for (name, value, range, zero_is_fine) in checks.into_iter().chain(clients) {
            if !(range.contains(&value) || zero_is_fine && value == 0) {
                return Err((name, format!("must be between {} and {}, not {value}", range.start(), range.end())));
            }
        }
        Ok(())
    }
}

const HTTPS_PORT: u16 = 443;

#[allow(clippy::cast_possible_truncation, reason = "720")]
const MAX_TIMEOUT_HOURS: u32 = (MAX_TIMEOUT_SECONDS / 3600) as u32;
