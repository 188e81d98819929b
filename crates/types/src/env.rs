//! Names of the environment variables that Cabana reads. Nothing else in the code spells one.

/// Base URL of the API, for the CLI (`E2B_API_URL` is read too).
pub const API_URL: &str = "CABANA_API_URL";
/// API key, for the CLI (`E2B_API_KEY` is read too).
pub const API_KEY: &str = "CABANA_API_KEY";
/// Password for the registry of a template's images, for the CLI.
pub const REGISTRY_PASSWORD: &str = "CABANA_REGISTRY_PASSWORD";
/// Data directory of the server.
pub const DATA_DIR: &str = "CABANA_DATA_DIR";
/// Address and port the server listens on.
pub const LISTEN: &str = "CABANA_LISTEN";
/// Domain under which sandboxes have host names.
pub const DOMAIN: &str = "CABANA_DOMAIN";
/// Whether the server may listen beyond loopback without TLS.
pub const ALLOW_INSECURE_LISTEN: &str = "CABANA_ALLOW_INSECURE_LISTEN";
/// Whether and how the listener speaks TLS.
pub const TLS_MODE: &str = "CABANA_TLS_MODE";
/// File with the certificate and its chain.
pub const TLS_CERTIFICATE: &str = "CABANA_TLS_CERTIFICATE";
/// File with the certificate's key.
pub const TLS_KEY: &str = "CABANA_TLS_KEY";
/// Most sandboxes at once.
pub const MAX_SANDBOXES: &str = "CABANA_MAX_SANDBOXES";
/// Virtual CPUs of a sandbox that asks for none.
pub const CPU_COUNT: &str = "CABANA_CPU_COUNT";
/// Memory of a sandbox that asks for none, MiB.
pub const MEMORY_MB: &str = "CABANA_MEMORY_MB";
/// Disk of a sandbox that asks for none, MiB.
pub const DISK_MB: &str = "CABANA_DISK_MB";
/// Most virtual CPUs of one sandbox.
pub const MAX_CPU_COUNT: &str = "CABANA_MAX_CPU_COUNT";
/// Most memory of one sandbox, MiB.
pub const MAX_MEMORY_MB: &str = "CABANA_MAX_MEMORY_MB";
/// Largest disk of one sandbox, MiB.
pub const MAX_DISK_MB: &str = "CABANA_MAX_DISK_MB";
/// Longest life of a sandbox from now, hours.
pub const MAX_TIMEOUT_HOURS: &str = "CABANA_MAX_TIMEOUT_HOURS";
/// How long a sandbox may take to come up, seconds.
pub const START_SECONDS: &str = "CABANA_START_SECONDS";
/// How long its template's start and ready commands may take after that, seconds.
pub const READY_SECONDS: &str = "CABANA_READY_SECONDS";
/// Most sandboxes of one team.
pub const MAX_TEAM_SANDBOXES: &str = "CABANA_MAX_TEAM_SANDBOXES";
/// Most snapshots of one team.
pub const MAX_TEAM_SNAPSHOTS: &str = "CABANA_MAX_TEAM_SNAPSHOTS";
/// Network slots that are kept ready.
pub const SPARE_SLOTS: &str = "CABANA_SPARE_SLOTS";
/// Name servers that the sandboxes' DNS is forwarded to, separated by commas.
pub const RESOLVERS: &str = "CABANA_RESOLVERS";
/// Isolation backend for sandboxes that ask for none.
pub const ISOLATION_DEFAULT: &str = "CABANA_ISOLATION_DEFAULT";
/// Kind of the storage pool.
pub const POOL_KIND: &str = "CABANA_POOL_KIND";
/// Size of the storage pool's image, GiB.
pub const POOL_IMAGE_GB: &str = "CABANA_POOL_IMAGE_GB";
/// Seconds between two samples of what a sandbox uses.
pub const METRICS_SECONDS: &str = "CABANA_METRICS_SECONDS";
/// Whether events may be sent to this machine and to private networks.
pub const WEBHOOKS_ALLOW_PRIVATE: &str = "CABANA_WEBHOOKS_ALLOW_PRIVATE";
/// How long the receiver of an event may take, seconds.
pub const WEBHOOKS_TIMEOUT_SECONDS: &str = "CABANA_WEBHOOKS_TIMEOUT_SECONDS";
/// Seconds after which an event is sent again, the first time.
pub const WEBHOOKS_RETRY_SECONDS: &str = "CABANA_WEBHOOKS_RETRY_SECONDS";
/// Largest archive of files for a build, MiB.
pub const MAX_UPLOAD_MB: &str = "CABANA_MAX_UPLOAD_MB";
/// Archives of a team that are kept, MiB.
pub const MAX_TEAM_UPLOADS_MB: &str = "CABANA_MAX_TEAM_UPLOADS_MB";
/// Builds at the same time.
pub const BUILDS_CONCURRENT: &str = "CABANA_BUILDS_CONCURRENT";
/// How long a build may take, minutes.
pub const BUILD_TIMEOUT_MINUTES: &str = "CABANA_BUILD_TIMEOUT_MINUTES";
/// Days for which results of steps are kept after their last use.
pub const BUILD_CACHE_DAYS: &str = "CABANA_BUILD_CACHE_DAYS";
/// Days for which a build without a tag is kept.
pub const KEEP_UNTAGGED_DAYS: &str = "CABANA_KEEP_UNTAGGED_DAYS";
/// Files with certificate authorities of registries.
pub const IMAGE_AUTHORITIES: &str = "CABANA_IMAGE_AUTHORITIES";
/// Days for which an ended sandbox is remembered.
pub const TOMBSTONE_DAYS: &str = "CABANA_TOMBSTONE_DAYS";
/// Configuration file of the server.
pub const CONFIG: &str = "CABANA_CONFIG";
/// Log filter of the server, in the form of `tracing-subscriber` (`info`, `cabana_server=debug`).
pub const LOG: &str = "CABANA_LOG";
/// The guest daemon's executable, when it is not beside `cabana`.
pub const GUEST: &str = "CABANA_GUEST";
/// Base URL of the API in the form of E2B's clients.
pub const E2B_API_URL: &str = "E2B_API_URL";
/// API key in the form of E2B's clients.
pub const E2B_API_KEY: &str = "E2B_API_KEY";
/// Whether the memory of paused sandboxes is given back.
pub const RECLAIM_MEMORY: &str = "CABANA_RECLAIM_MEMORY";
/// How many sandboxes may sleep with their memory.
pub const MAX_PAUSED_IN_MEMORY: &str = "CABANA_MAX_PAUSED_IN_MEMORY";
/// How much memory they may hold together, MiB.
pub const MAX_PAUSED_MEMORY_MB: &str = "CABANA_MAX_PAUSED_MEMORY_MB";
/// Where archived disks go.
pub const ARCHIVE_LOCATION: &str = "CABANA_ARCHIVE_LOCATION";
/// URL of the S3-compatible service.
pub const ARCHIVE_ENDPOINT: &str = "CABANA_ARCHIVE_ENDPOINT";
/// The bucket's region.
pub const ARCHIVE_REGION: &str = "CABANA_ARCHIVE_REGION";
/// The service's access key.
pub const ARCHIVE_KEY_ID: &str = "CABANA_ARCHIVE_KEY_ID";
/// Its secret.
pub const ARCHIVE_SECRET: &str = "CABANA_ARCHIVE_SECRET";
/// Whether the service may be spoken to without encryption.
pub const ARCHIVE_ALLOW_HTTP: &str = "CABANA_ARCHIVE_ALLOW_HTTP";
/// Days asleep after which a sandbox is archived.
pub const ARCHIVE_AFTER_DAYS: &str = "CABANA_ARCHIVE_AFTER_DAYS";
/// Days asleep after which a sandbox is recycled.
pub const RECYCLE_AFTER_DAYS: &str = "CABANA_RECYCLE_AFTER_DAYS";
/// Hours for which the disk of a failed sandbox is kept.
pub const FAILED_HOURS: &str = "CABANA_FAILED_HOURS";
