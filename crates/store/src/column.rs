//! Column encodings: times as microseconds, JSON and ids as text.

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::Error;

/// A row whose columns are read by name; errors name the column.
pub(crate) struct Columns<'r>(pub(crate) &'r SqliteRow);

impl Columns<'_> {
    pub(crate) fn text(&self, column: &'static str) -> Result<String, Error> {
        self.0.try_get(column).map_err(|e| Error::decode(column, e))
    }

    pub(crate) fn text_or_none(&self, column: &'static str) -> Result<Option<String>, Error> {
        self.0.try_get(column).map_err(|e| Error::decode(column, e))
    }

    pub(crate) fn integer(&self, column: &'static str) -> Result<i64, Error> {
        self.0.try_get(column).map_err(|e| Error::decode(column, e))
    }

    pub(crate) fn number<T: TryFrom<i64>>(&self, column: &'static str) -> Result<T, Error> {
        T::try_from(self.integer(column)?).map_err(|_| Error::decode(column, "out of range"))
    }

    pub(crate) fn number_or_none<T: TryFrom<i64>>(&self, column: &'static str) -> Result<Option<T>, Error> {
        let value: Option<i64> = self.0.try_get(column).map_err(|e| Error::decode(column, e))?;
        value.map(|n| T::try_from(n).map_err(|_| Error::decode(column, "out of range"))).transpose()
    }

    pub(crate) fn flag(&self, column: &'static str) -> Result<bool, Error> {
        Ok(self.integer(column)? != 0)
    }

    pub(crate) fn time(&self, column: &'static str) -> Result<Timestamp, Error> {
        Timestamp::from_microsecond(self.integer(column)?).map_err(|e| Error::decode(column, e))
    }

    pub(crate) fn time_or_none(&self, column: &'static str) -> Result<Option<Timestamp>, Error> {
        let value: Option<i64> = self.0.try_get(column).map_err(|e| Error::decode(column, e))?;
        value.map(|us| Timestamp::from_microsecond(us).map_err(|e| Error::decode(column, e))).transpose()
    }

    pub(crate) fn bytes(&self, column: &'static str) -> Result<Vec<u8>, Error> {
        self.0.try_get(column).map_err(|e| Error::decode(column, e))
    }

    pub(crate) fn hash_or_none(&self, column: &'static str) -> Result<Option<[u8; 32]>, Error> {
        let value: Option<Vec<u8>> = self.0.try_get(column).map_err(|e| Error::decode(column, e))?;
        value.map(|bytes| bytes.try_into().map_err(|_| Error::decode(column, "not 32 bytes long"))).transpose()
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, column: &'static str) -> Result<T, Error> {
        serde_json::from_str(&self.text(column)?).map_err(|e| Error::decode(column, e))
    }

    pub(crate) fn id<T>(&self, column: &'static str) -> Result<T, Error>
    where
        T: std::str::FromStr<Err = cabana_types::InvalidId>,
    {
        self.text(column)?.parse().map_err(|e| Error::decode(column, e))
    }
}

/// A value as JSON text.
pub(crate) fn json<T: Serialize>(column: &'static str, value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|e| Error::decode(column, e))
}

/// A time in microseconds, the precision of the database.
pub(crate) fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}
