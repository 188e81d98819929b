//! State of the daemon: settings that the host may change, commands and watchers.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use cabana_types::Secret;
use cabana_types::guest::GuestConfig;

use crate::commands::Commands;
use crate::metrics::CpuMeter;
use crate::readiness::Preparation;
use crate::trust;
use crate::watchers::Watchers;

/// Settings, which `POST /init` changes.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Token that requests must carry.
    pub(crate) access_token: Option<Secret>,
    /// Environment of every command.
    pub(crate) env: BTreeMap<String, String>,
    /// Environment for programs that have their own certificates; everything else overrides it.
    pub(crate) trust: Vec<(String, String)>,
    /// Default user.
    pub(crate) default_user: String,
    /// Default working directory.
    pub(crate) default_workdir: Option<String>,
}

/// Totals reported by `/metrics`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) cpus: u32,
    /// Memory in bytes.
    pub(crate) memory: u64,
    /// Disk in bytes.
    pub(crate) disk: u64,
}

/// State of the daemon.
pub(crate) struct Guest {
    /// Differs after each start of the daemon.
    pub(crate) boot: String,
    settings: Mutex<Settings>,
    pub(crate) commands: Arc<Commands>,
    /// The template's start and ready commands.
    pub(crate) preparation: Preparation,
    /// Polled watchers.
    pub(crate) watchers: Watchers,
    pub(crate) totals: Totals,
    /// CPU use since the last request for metrics.
    pub(crate) cpu: Mutex<CpuMeter>,
}

impl Guest {
    pub(crate) fn new(config: GuestConfig) -> Self {
        let mut env = BTreeMap::from([
            ("E2B_SANDBOX".to_owned(), "true".to_owned()),
            ("E2B_SANDBOX_ID".to_owned(), config.sandbox_id.to_string()),
            ("E2B_TEMPLATE_ID".to_owned(), config.template_id),
        ]);
        env.extend(config.env_vars);
        // The standard library seeds each of them at random.
        let random = || RandomState::new().build_hasher().finish();
        Self {
            boot: format!("{:016x}{:016x}", random(), random()),
            settings: Mutex::new(Settings {
                access_token: config.access_token.filter(|t| !t.expose().is_empty()),
                env,
                trust: Vec::new(),
                default_user: config.default_user,
                default_workdir: config.default_workdir.filter(|w| !w.is_empty()),
            }),
            commands: Arc::new(Commands::new()),
            preparation: Preparation::new(config.start, config.ready),
            watchers: Watchers::default(),
            totals: Totals { cpus: config.cpu_count.max(1), memory: config.memory_bytes, disk: config.disk_bytes },
            cpu: Mutex::new(CpuMeter::new(Instant::now())),
        }
    }

    /// Makes programs trust a certificate authority. A failure is logged: they refuse hosts that it signs for.
    pub(crate) fn trust(&self, certificate: Option<&str>) -> bool {
        match trust::install(Path::new("/"), certificate) {
            Ok(environment) => self.settings().trust = environment,
            Err(error) => {
                let text = format!("could not install the certificate authority of this sandbox: {error}");
                self.commands.journal.warn(None, text);
                return false;
            }
        }
        true
    }

    /// Locks the settings; hold the guard briefly.
    pub(crate) fn settings(&self) -> MutexGuard<'_, Settings> {
        lock(&self.settings)
    }
}

/// Locks a mutex and ignores poisoning: the daemon aborts on panic, and the data stays consistent where it does not.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
