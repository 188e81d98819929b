//! Names of the environment variables that Cabana reads. The variables of the server's settings are defined in
//! `server/src/defaults.toml`.

/// Base URL of the API, for the CLI (`E2B_API_URL` is read too).
pub const API_URL: &str = "CABANA_API_URL";
/// API key, for the CLI (`E2B_API_KEY` is read too).
pub const API_KEY: &str = "CABANA_API_KEY";
/// Password for the registry of a template's images, for the CLI.
pub const REGISTRY_PASSWORD: &str = "CABANA_REGISTRY_PASSWORD";
/// Data directory of the server.
pub const DATA_DIR: &str = "CABANA_DATA_DIR";
/// TLS mode of the server's listener.
pub const TLS_MODE: &str = "CABANA_TLS_MODE";
/// Configuration file of the server.
pub const CONFIG: &str = "CABANA_CONFIG";
/// Log filter of the server, in the syntax of `tracing-subscriber` (`info`, `cabana_server=debug`).
pub const LOG: &str = "CABANA_LOG";
/// Path of the guest daemon's executable, if it is not next to `cabana`.
pub const GUEST: &str = "CABANA_GUEST";
/// Directory of the web console's files, instead of those that `cabana` contains; for work on the console.
pub const CONSOLE_DIR: &str = "CABANA_CONSOLE_DIR";
/// Base URL of the API, as E2B's clients name it.
pub const E2B_API_URL: &str = "E2B_API_URL";
/// API key, as E2B's clients name it.
pub const E2B_API_KEY: &str = "E2B_API_KEY";
