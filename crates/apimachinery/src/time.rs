//! Times as objects hold them. What time it is now is never asked here.
//!
//! A field is a `Time` in whole seconds or a `MicroTime` with exactly six fractional digits (AP-130), both printed in
//! UTC.

use std::fmt;
use std::str::FromStr;

use jiff::civil::DateTime;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// An instant, ordered chronologically.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    /// Seconds since 1970, UTC; negative before.
    pub seconds: i64,
    /// Nanoseconds within the second, less than 10^9.
    pub nanoseconds: u32,
}

/// An error: the text is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a time: write it like {example}")]
pub struct TimeError {
    text: String,
    example: &'static str,
}

impl Instant {
    /// Go's zero time, printed as `null`: the first second of the year 1.
    pub const ZERO: Self = Self { seconds: -62_135_596_800, nanoseconds: 0 };

    /// A whole second.
    pub fn of_seconds(seconds: i64) -> Self {
        Self { seconds, nanoseconds: 0 }
    }

    /// Parses a `Time`: RFC 3339, with or without a fraction.
    ///
    /// # Errors
    /// The text is not a time.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        let error = || TimeError { text: text.to_owned(), example: "2026-01-02T03:04:05Z" };
        read(text, |fraction| fraction.is_none_or(|digits| !digits.is_empty())).ok_or_else(error)
    }

    /// Parses a `MicroTime`: RFC 3339 with exactly six fractional digits (AP-130).
    ///
    /// # Errors
    /// The text is not a time, or has another number of fractional digits.
    pub fn parse_micro(text: &str) -> Result<Self, TimeError> {
        let error = || TimeError { text: text.to_owned(), example: "2026-01-02T03:04:05.000000Z" };
        read(text, |fraction| fraction.is_some_and(|digits| digits.len() == 6)).ok_or_else(error)
    }

    /// Formats as a `MicroTime`, truncated to microseconds.
    pub fn to_micro(self) -> String {
        let (whole, micros) = (self.to_string(), self.nanoseconds / 1_000);
        format!("{}.{micros:06}Z", whole.trim_end_matches('Z'))
    }
}

impl fmt::Display for Instant {
    /// Formats as a `Time` in UTC, truncated to seconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date_of(self.seconds.div_euclid(DAY));
        let second = self.seconds.rem_euclid(DAY);
        let (hour, minute, second) = (second / HOUR, second % HOUR / MINUTE, second % MINUTE);
        // Every write of an object prints times: padding by the formatter takes ten times as long.
        match u16::try_from(year) {
            Ok(year @ ..=9999) => f.write_str(text(&digits::<4>(year.into())))?,
            _ => write!(f, "{year:04}")?,
        }
        let ([o1, o2], [d1, d2]) = (digits(month), digits(day));
        let ([h1, h2], [m1, m2], [s1, s2]) = (digits(hour), digits(minute), digits(second));
        f.write_str(text(&[b'-', o1, o2, b'-', d1, d2, b'T', h1, h2, b':', m1, m2, b':', s1, s2, b'Z']))
    }
}

/// The last decimal digits of a number that is not negative.
fn digits<const N: usize>(mut value: i64) -> [u8; N] {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        *digit += u8::try_from(value % 10).unwrap_or_default();
        value /= 10;
    }
    digits
}

fn text(digits: &[u8]) -> &str {
    std::str::from_utf8(digits).unwrap_or_default()
}

/// Parses `YYYY-MM-DDThh:mm:ss`, a fraction that `is_wanted` accepts, and `Z` or an offset. Like the API server, it
/// accepts a one-digit hour, a decimal comma, and an offset of up to 24 hours and 60 minutes.
fn read(text: &str, is_wanted: impl Fn(Option<&str>) -> bool) -> Option<Instant> {
    let (date, rest) = text.split_once('T')?;
    let mut date = date.splitn(3, '-');
    let (year, month, day) = (number(date.next()?, 4)?, number(date.next()?, 2)?, number(date.next()?, 2)?);
    let (hour, rest) = rest.split_once(':')?;
    let hour = number(hour, 2).or_else(|| number(hour, 1))?;
    let (minute, rest) = rest.split_once(':')?;
    let (second, rest) = rest.split_at_checked(2)?;
    let local = DateTime::new(year, month, day, hour, number(minute, 2)?, number(second, 2)?, 0).ok()?;

    let (fraction, zone) = match rest.strip_prefix(['.', ',']) {
        None => (None, rest),
        Some(rest) => {
            let length = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, zone) = rest.split_at_checked(length)?;
            (Some(digits), zone)
        }
    };
    if !is_wanted(fraction) {
        return None;
    }
    let offset = offset_of(zone)?;
    let seconds = local.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0)).as_secs() - offset;
    Some(Instant { seconds, nanoseconds: nanoseconds_of(fraction.unwrap_or_default()) })
}

/// Parses a number of exactly this many digits.
fn number<N: FromStr>(text: &str, digits: usize) -> Option<N> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// The seconds of an offset from UTC.
fn offset_of(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let (sign, rest) = match zone.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, zone.strip_prefix('+')?),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let hours: i64 = number(hours, 2).filter(|hours| *hours <= 24)?;
    let minutes: i64 = number(minutes, 2).filter(|minutes| *minutes <= 60)?;
    Some(sign * (hours * HOUR + minutes * MINUTE))
}

/// The value of the fraction digits; digits after the ninth are ignored.
fn nanoseconds_of(fraction: &str) -> u32 {
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    digits.fold(0, |value, digit| value * 10 + u32::from(digit.saturating_sub(b'0')))
}

/// The year, month and day after so many days from 1970, on a calendar that begins its years in March, so that leap
/// days come last. For any number of days, as objects may hold it, which is more than the calendar of `jiff` has.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_time_is_read_as_the_api_server_reads_it_and_printed_in_utc() {
        for (text, printed) in [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
            ("2026-01-02T03:04:05.999999999Z", "2026-01-02T03:04:05Z"),
            ("2026-01-02T03:04:05,5+01:30", "2026-01-02T01:34:05Z"),
            ("2026-01-02T3:04:05-24:00", "2026-01-03T03:04:05Z"),
            ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(Instant::parse(text).unwrap().to_string(), printed, "{text}");
        }
        assert_eq!(Instant::parse("1970-01-01T00:00:01Z").unwrap(), Instant::of_seconds(1));
        assert_eq!(Instant::parse("0001-01-01T00:00:00Z").unwrap(), Instant::ZERO);
        for text in [
            "",
            "2026-01-02",
            "2026-01-02 03:04:05Z",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04:05z",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:60Z",
            "2026-01-02T24:04:05Z",
            "2026-02-29T03:04:05Z",
            "2026-13-01T03:04:05Z",
            "2026-1-02T03:04:05Z",
            "2026-01-02T03:04:05+0100",
            "2026-01-02T03:04:05+25:00",
            "2026-01-02T03:04:05Zé",
            "2026-01-02T03:04:é",
        ] {
            assert!(Instant::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_micro_time_has_exactly_six_digits_ap_130() {
        let micro = |text: &str| Instant::parse_micro(text).map(Instant::to_micro);
        assert_eq!(micro("2026-01-02T03:04:05.000006Z").unwrap(), "2026-01-02T03:04:05.000006Z");
        assert_eq!(micro("2026-01-02T03:04:05.100000+02:00").unwrap(), "2026-01-02T01:04:05.100000Z");
        for text in [
            "2026-01-02T03:04:05Z",
            "2026-01-02T03:04:05.00000Z",
            "2026-01-02T03:04:05.0000000Z",
            "2026-01-02T03:04:05.000000001Z",
        ] {
            assert!(micro(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_second_of_four_digit_years_is_printed_and_read_back(
            seconds in -62_167_219_200_i64..253_402_300_800, nanoseconds in 0_u32..1_000_000_000
        ) {
            let time = Instant { seconds, nanoseconds };
            prop_assert_eq!(Instant::parse(&time.to_string()).unwrap(), Instant::of_seconds(seconds));
            let micro = Instant::parse_micro(&time.to_micro()).unwrap();
            prop_assert_eq!(micro, Instant { nanoseconds: nanoseconds / 1_000 * 1_000, ..time });
        }

        #[test]
        fn the_next_second_is_printed_later(seconds in -62_167_219_200_i64..253_402_300_799) {
            prop_assert!(Instant::of_seconds(seconds).to_string() < Instant::of_seconds(seconds + 1).to_string());
        }

        #[test]
        fn no_text_stops_the_clock(text in "[-0-9TZ:.,+]{0,30}|.*", seconds: i64) {
            let _ = (Instant::parse(&text), Instant::parse_micro(&text));
            let _ = Instant::of_seconds(seconds).to_string();
        }
    }
}
