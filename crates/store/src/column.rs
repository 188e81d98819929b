//! Column encodings: times as microseconds, JSON and ids as text.

use cabana_types::ActorId;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::Error;

/// A row whose columns are read by name; errors name the column.
pub(crate) struct Columns<'r>(pub(crate) &'r SqliteRow);

impl<'r> Columns<'r> {
    /// A text without a copy of it.
    pub(crate) fn borrowed(&self, column: &'static str) -> Result<&'r str, Error> {
        self.0.try_get(column).map_err(|e| Error::decode(column, e))
    }

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

    pub(crate) fn bytes_or_none(&self, column: &'static str) -> Result<Option<Vec<u8>>, Error> {
        self.0.try_get(column).map_err(|e| Error::decode(column, e))
    }

    pub(crate) fn hash_or_none(&self, column: &'static str) -> Result<Option<[u8; 32]>, Error> {
        let value: Option<Vec<u8>> = self.0.try_get(column).map_err(|e| Error::decode(column, e))?;
        value.map(|bytes| bytes.try_into().map_err(|_| Error::decode(column, "not 32 bytes long"))).transpose()
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, column: &'static str) -> Result<T, Error> {
        serde_json::from_str(&self.text(column)?).map_err(|e| Error::decode(column, e))
    }

    pub(crate) fn json_or_none<T: DeserializeOwned>(&self, column: &'static str) -> Result<Option<T>, Error> {
        let text = self.text_or_none(column)?;
        text.map(|text| serde_json::from_str(&text).map_err(|e| Error::decode(column, e))).transpose()
    }

    /// A word of a list of words.
    pub(crate) fn word<T>(&self, column: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<T, Error> {
        parse(self.borrowed(column)?).ok_or_else(|| Error::decode(column, "not one of the words"))
    }

    pub(crate) fn word_or_none<T>(
        &self,
        column: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let text = self.text_or_none(column)?;
        text.map(|text| parse(&text).ok_or_else(|| Error::decode(column, "not one of the words"))).transpose()
    }

    pub(crate) fn actor_or_none(&self, column: &'static str) -> Result<Option<ActorId>, Error> {
        let Some(text) = self.text_or_none(column)? else { return Ok(None) };
        let user = text.parse().map(ActorId::User);
        user.or_else(|_| text.parse().map(ActorId::Key)).map(Some).map_err(|e| Error::decode(column, e))
    }

    pub(crate) fn id_or_none<T>(&self, column: &'static str) -> Result<Option<T>, Error>
    where
        T: std::str::FromStr<Err = cabana_types::InvalidId>,
    {
        let text = self.text_or_none(column)?;
        text.map(|text| text.parse().map_err(|e| Error::decode(column, e))).transpose()
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

/// An optional value as JSON text.
pub(crate) fn json_or_none<T: Serialize>(column: &'static str, value: Option<&T>) -> Result<Option<String>, Error> {
    value.map(|value| json(column, value)).transpose()
}

/// A number that fits in a column; those that do not are of no use to anybody.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
