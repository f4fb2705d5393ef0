//! Values on their way to PostgreSQL and back.
//!
//! Integers and floats are sent as what they are; everything else takes the type of where it goes, so that text can be kept in a
//! column of bytes: PostgreSQL's own text has no room for a zero byte, and what was said comes back byte for byte.

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql as Encode, Type, to_sql_checked};

use super::sql::Error;

type BoxedError = Box<dyn std::error::Error + Sync + Send>;

/// A value as it is sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Param<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Bool(bool),
    Bytes(&'a [u8]),
}

impl Param<'_> {
    /// The same, on its own.
    pub(super) fn owned(&self) -> Owned {
        match *self {
            Self::Null => Owned::Null,
            Self::Integer(value) => Owned::Integer(value),
            Self::Real(value) => Owned::Real(value),
            Self::Bool(value) => Owned::Bool(value),
            Self::Bytes(bytes) => Owned::Bytes(bytes.to_vec()),
        }
    }

    /// The type that is asked for; others follow from where the value goes.
    pub(super) fn wanted(&self) -> Type {
        match self {
            Self::Integer(_) => Type::INT8,
            Self::Real(_) => Type::FLOAT8,
            Self::Null | Self::Bool(_) | Self::Bytes(_) => Type::UNKNOWN,
        }
    }
}

impl Encode for Param<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, BoxedError> {
        match *self {
            Self::Null => return Ok(IsNull::Yes),
            Self::Integer(value) => put_integer(value, ty, out)?,
            Self::Bool(value) => put_integer(i64::from(value), ty, out)?,
            Self::Real(value) if *ty == Type::FLOAT8 => out.put_f64(value),
            Self::Real(_) => return Err(format!("a float does not go where {ty} is wanted").into()),
            Self::Bytes(bytes) => match *ty {
                Type::BYTEA | Type::TEXT | Type::VARCHAR | Type::NAME => out.put_slice(bytes),
                _ => return Err(format!("bytes do not go where {ty} is wanted").into()),
            },
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A value that waits to be sent.
#[derive(Debug, Clone)]
pub(super) enum Owned {
    Null,
    Integer(i64),
    Real(f64),
    Bool(bool),
    Bytes(Vec<u8>),
}

impl Owned {
    fn param(&self) -> Param<'_> {
        match self {
            Self::Null => Param::Null,
            Self::Integer(value) => Param::Integer(*value),
            Self::Real(value) => Param::Real(*value),
            Self::Bool(value) => Param::Bool(*value),
            Self::Bytes(bytes) => Param::Bytes(bytes),
        }
    }
}

impl Encode for Owned {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, BoxedError> {
        self.param().to_sql(ty, out)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn put_integer(value: i64, ty: &Type, out: &mut BytesMut) -> Result<(), BoxedError> {
    match *ty {
        Type::INT8 => out.put_i64(value),
        Type::INT4 => out.put_i32(i32::try_from(value)?),
        Type::INT2 => out.put_i16(i16::try_from(value)?),
        Type::BOOL => out.put_u8(u8::from(value != 0)),
        Type::FLOAT8 => out.put_f64(value as f64),
        _ => return Err(format!("an integer does not go where {ty} is wanted").into()),
    }
    Ok(())
}

/// A value as it is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ValueRef<'a> {
    /// There is none.
    Null,
    /// An integer, or a truth value.
    Integer(i64),
    /// A float.
    Real(f64),
    /// Text.
    Text(&'a [u8]),
    /// Bytes, maybe those of a text.
    Blob(&'a [u8]),
}

impl<'a> FromSql<'a> for ValueRef<'a> {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, BoxedError> {
        Ok(match *ty {
            Type::INT8 => Self::Integer(i64::from_be_bytes(raw.try_into()?)),
            Type::INT4 => Self::Integer(i32::from_be_bytes(raw.try_into()?).into()),
            Type::INT2 => Self::Integer(i16::from_be_bytes(raw.try_into()?).into()),
            Type::BOOL => Self::Integer(i64::from(raw.first() == Some(&1))),
            Type::FLOAT8 => Self::Real(f64::from_be_bytes(raw.try_into()?)),
            Type::TEXT | Type::VARCHAR | Type::NAME => Self::Text(raw),
            Type::BYTEA => Self::Blob(raw),
            _ => return Err(format!("a column of type {ty} is not expected").into()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, BoxedError> {
        Ok(Self::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl<'a> ValueRef<'a> {
    /// Text, or bytes that are text.
    pub(super) fn as_str(self) -> Result<&'a str, Error> {
        match self {
            Self::Text(bytes) | Self::Blob(bytes) => std::str::from_utf8(bytes).map_err(|_| self.is_not("text")),
            _ => Err(self.is_not("text")),
        }
    }

    /// The same, or nothing.
    pub(super) fn as_str_or_null(self) -> Result<Option<&'a str>, Error> {
        if self == Self::Null { Ok(None) } else { self.as_str().map(Some) }
    }

    /// Bytes.
    pub(super) fn as_blob(self) -> Result<&'a [u8], Error> {
        if let Self::Blob(bytes) = self { Ok(bytes) } else { Err(self.is_not("bytes")) }
    }

    /// An integer.
    pub(super) fn as_i64(self) -> Result<i64, Error> {
        if let Self::Integer(value) = self { Ok(value) } else { Err(self.is_not("an integer")) }
    }

    fn is_not(self, wanted: &str) -> Error {
        let found = match self {
            Self::Null => "nothing",
            Self::Integer(_) => "an integer",
            Self::Real(_) => "a float",
            Self::Text(_) => "text",
            Self::Blob(_) => "bytes",
        };
        Error::Unexpected(format!("{wanted} was expected in a column, and there was {found}"))
    }
}

/// What can be sent.
pub(super) trait ToSql {
    /// As it is sent.
    fn param(&self) -> Result<Param<'_>, Error>;
}

/// What can be read.
pub(super) trait Read: Sized {
    /// From a column.
    fn read(value: ValueRef<'_>) -> Result<Self, Error>;
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl ToSql for $kind {
            fn param(&self) -> Result<Param<'_>, Error> {
                let value = i64::try_from(*self).map_err(|_| Error::Unexpected(format!("{self} is too large")))?;
                Ok(Param::Integer(value))
            }
        }

        impl Read for $kind {
            fn read(value: ValueRef<'_>) -> Result<Self, Error> {
                let value = value.as_i64()?;
                value.try_into().map_err(|_| Error::Unexpected(format!("{value} is out of bounds")))
            }
        }
    )*};
}

integers!(i64, i32, u64, u32, usize);

impl ToSql for bool {
    fn param(&self) -> Result<Param<'_>, Error> {
        Ok(Param::Bool(*self))
    }
}

impl ToSql for f64 {
    fn param(&self) -> Result<Param<'_>, Error> {
        Ok(Param::Real(*self))
    }
}

impl ToSql for str {
    fn param(&self) -> Result<Param<'_>, Error> {
        Ok(Param::Bytes(self.as_bytes()))
    }
}

impl ToSql for String {
    fn param(&self) -> Result<Param<'_>, Error> {
        self.as_str().param()
    }
}

impl ToSql for [u8] {
    fn param(&self) -> Result<Param<'_>, Error> {
        Ok(Param::Bytes(self))
    }
}

impl ToSql for Vec<u8> {
    fn param(&self) -> Result<Param<'_>, Error> {
        Ok(Param::Bytes(self))
    }
}

impl<const N: usize> ToSql for [u8; N] {
    fn param(&self) -> Result<Param<'_>, Error> {
        Ok(Param::Bytes(self))
    }
}

impl<T: ToSql + ?Sized> ToSql for &T {
    fn param(&self) -> Result<Param<'_>, Error> {
        (**self).param()
    }
}

impl<T: ToSql> ToSql for Option<T> {
    fn param(&self) -> Result<Param<'_>, Error> {
        self.as_ref().map_or(Ok(Param::Null), ToSql::param)
    }
}

impl Read for bool {
    fn read(value: ValueRef<'_>) -> Result<Self, Error> {
        Ok(value.as_i64()? != 0)
    }
}

impl Read for f64 {
    fn read(value: ValueRef<'_>) -> Result<Self, Error> {
        match value {
            ValueRef::Real(value) => Ok(value),
            other => Ok(other.as_i64()? as Self),
        }
    }
}

impl Read for String {
    fn read(value: ValueRef<'_>) -> Result<Self, Error> {
        value.as_str().map(str::to_owned)
    }
}

impl Read for Vec<u8> {
    fn read(value: ValueRef<'_>) -> Result<Self, Error> {
        value.as_blob().map(<[u8]>::to_vec)
    }
}

impl<const N: usize> Read for [u8; N] {
    fn read(value: ValueRef<'_>) -> Result<Self, Error> {
        let bytes = value.as_blob()?;
        bytes.try_into().map_err(|_| Error::Unexpected(format!("{} bytes where {N} were expected", bytes.len())))
    }
}

impl<T: Read> Read for Option<T> {
    fn read(value: ValueRef<'_>) -> Result<Self, Error> {
        if value == ValueRef::Null { Ok(None) } else { T::read(value).map(Some) }
    }
}
