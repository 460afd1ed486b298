//! When a request arrived, as its file says it.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// How a file counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// ISO 8601.
    Calendar,
    /// Seconds from a zero that the file knows.
    Seconds,
}

/// Largest number of seconds: the end of the year 9999, so that milliseconds are noticed.
pub(super) const MAX_STAMP: f64 = 253_402_300_799.0;

/// Microseconds since 1970; what gives no offset is taken as UTC.
pub(super) fn calendar(text: &str) -> Result<i64, String> {
    // An offset or `Z` can only stand after the date; a bare date and time cannot have one.
    let time = text.find(['T', 't', ' ']).map_or("", |at| &text[at + 1..]);
    if time.contains(['Z', 'z', '+', '-']) {
        return text.parse::<Timestamp>().map(Timestamp::as_microsecond).map_err(|error| error.to_string());
    }
    let local: DateTime = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    let zoned = local.to_zoned(TimeZone::UTC).map_err(|error| error.to_string())?;
    Ok(zoned.timestamp().as_microsecond())
}
