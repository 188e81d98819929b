//! Embedded schema migrations. `sqlx::migrate!` is not used because its procedural macro would compile SQLite and sqlx
//! twice.

use std::borrow::Cow;

use sqlx::SqlStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// Lists migrations as version and name of `migrations/VERSION_NAME.sql`.
macro_rules! migrations {
    ($($version:literal $name:literal),+ $(,)?) => {
        [$(($version, $name, include_str!(concat!("../migrations/", $version, "_", $name, ".sql")))),+]
    };
}

/// All migrations, oldest first. Never change a released one: databases store its checksum.
const MIGRATIONS: &[(&str, &str, &str)] = &migrations![
    "0001" "first",
    "0002" "traffic",
    "0003" "sleep",
    "0004" "webhooks",
    "0005" "builds",
    "0006" "isolation",
    "0007" "layer_kinds",
    "0008" "secrets",
    "0009" "identity",
    "0010" "egress",
    "0011" "tool_calls",
    "0012" "tool_calls_by_team",
    "0013" "people",
    "0014" "ended",
    "0015" "services",
    "0016" "chats",
    "0017" "service_versions",
    "0018" "quotas",
    "0019" "roles",
    "0020" "projects",
    "0023" "metering",
    "0024" "money",
];

pub(crate) fn migrator() -> Migrator {
    let migration = |&(version, name, sql): &(&str, &'static str, &'static str)| {
        let version = version.parse().unwrap_or_default();
        Migration::new(version, Cow::Borrowed(name), MigrationType::Simple, SqlStr::from_static(sql), false)
    };
    Migrator::with_migrations(MIGRATIONS.iter().map(migration).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_file_is_listed_in_order() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
        let files: BTreeSet<String> = std::fs::read_dir(directory)
            .expect("migrations")
            .map(|entry| entry.expect("entry").file_name().into_string().expect("name"))
            .collect();
        let listed: Vec<String> = MIGRATIONS.iter().map(|(version, name, _)| format!("{version}_{name}.sql")).collect();
        assert_eq!(files.into_iter().collect::<Vec<_>>(), listed);
        assert!(migrator().iter().zip(1..).all(|(migration, version)| migration.version == version));
    }
}
