//! Arrival times as written in files.

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
pub fn calendar(text: &str) -> Result<i64, String> {
    // An offset or `Z` can only stand after the date; a bare date and time cannot have one.
    let time = text.find(['T', 't', ' ']).map_or("", |at| &text[at + 1..]);
    if let Some(sign) = time.find(['Z', 'z', '+', '-']) {
        if beyond_any_zone(&time[sign..]) {
            return Err("offsets from UTC are at most 18 hours".to_owned());
        }
        return text.parse::<Timestamp>().map(Timestamp::as_microsecond).map_err(|error| error.to_string());
    }
    let local: DateTime = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    let zoned = local.to_zoned(TimeZone::UTC).map_err(|error| error.to_string())?;
    Ok(zoned.timestamp().as_microsecond())
}

/// Whether an offset such as `+19:00` is more than ISO 8601's users have ever needed; the reader of dates takes up to
/// 25:59.
fn beyond_any_zone(offset: &str) -> bool {
    let digits: String = offset[1..].chars().take_while(|c| *c != '[').filter(char::is_ascii_digit).collect();
    let (hours, rest) = digits.split_at(digits.len().min(2));
    hours
        .parse::<u32>()
        .is_ok_and(|hours| hours > 18 || hours == 18 && rest.bytes().any(|digit| digit != b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_beyond_eighteen_hours_are_refused() {
        for good in ["+00:00", "+18:00", "-18", "+0530", "Z", "-12:45"] {
            assert!(calendar(&format!("2024-01-01T10:00:00{good}")).is_ok(), "{good}");
        }
        for bad in ["+18:01", "+25:00", "-1801", "+19", "-99:00"] {
            assert!(calendar(&format!("2024-01-01T10:00:00{bad}")).is_err(), "{bad}");
        }
    }
}
