//! Times and durations as objects and configuration files hold them.
//!
//! An object holds a `Time` in whole seconds or a `MicroTime` with exactly six digits (AP-130), both printed in UTC.

use std::fmt;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// An instant. Its order is that of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    /// Seconds since 1970, UTC; less than zero before.
    pub seconds: i64,
    /// Nanoseconds after those, below a thousand million.
    pub nanoseconds: u32,
}

/// A text that is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a time: write it like {example}")]
pub struct TimeError {
    text: String,
    example: &'static str,
}

impl Instant {
    /// The time that Go calls zero and prints as `null`: the first second of the year 1.
    pub const ZERO: Self = Self { seconds: -62_135_596_800, nanoseconds: 0 };

    /// A whole second.
    pub fn of_seconds(seconds: i64) -> Self {
        Self { seconds, nanoseconds: 0 }
    }

    /// Reads a `Time`: RFC 3339, with or without a fraction.
    ///
    /// # Errors
    /// The text is no time.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        let error = || TimeError { text: text.to_owned(), example: "2026-01-02T03:04:05Z" };
        read(text, |fraction| fraction.is_none_or(|digits| !digits.is_empty())).ok_or_else(error)
    }

    /// Reads a `MicroTime`: RFC 3339 with exactly six digits after the second (AP-130).
    ///
    /// # Errors
    /// The text is no time, or has another number of digits.
    pub fn parse_micro(text: &str) -> Result<Self, TimeError> {
        let error = || TimeError { text: text.to_owned(), example: "2026-01-02T03:04:05.000000Z" };
        read(text, |fraction| fraction.is_some_and(|digits| digits.len() == 6)).ok_or_else(error)
    }

    /// The text of a `MicroTime`; finer parts are cut off.
    pub fn to_micro(self) -> String {
        let (whole, micros) = (self.to_string(), self.nanoseconds / 1_000);
        format!("{}.{micros:06}Z", whole.trim_end_matches('Z'))
    }
}

impl fmt::Display for Instant {
    /// The text of a `Time`: whole seconds, UTC; finer parts are cut off.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date_of(self.seconds.div_euclid(DAY));
        let second = self.seconds.rem_euclid(DAY);
        let (hour, minute, second) = (second / HOUR, second % HOUR / MINUTE, second % MINUTE);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// Reads `YYYY-MM-DDThh:mm:ss`, a fraction that must be as wanted, and `Z` or an offset. Like the API server, takes an
/// hour of one digit, a comma for the point, and an offset of up to 24 hours and 60 minutes.
fn read(text: &str, is_wanted: impl Fn(Option<&str>) -> bool) -> Option<Instant> {
    let (date, rest) = text.split_once('T')?;
    let mut date = date.splitn(3, '-');
    let year = number(date.next()?, 4)?;
    let month = number(date.next()?, 2).filter(|month| (1..=12).contains(month))?;
    let day = number(date.next()?, 2).filter(|day| (1..=days_of(year, month)).contains(day))?;

    let (hour, rest) = rest.split_once(':')?;
    let hour = number(hour, 2).or_else(|| number(hour, 1)).filter(|hour| *hour < 24)?;
    let (minute, rest) = rest.split_once(':')?;
    let minute = number(minute, 2).filter(|minute| *minute < 60)?;
    let (second, rest) = rest.split_at_checked(2)?;
    let second = number(second, 2).filter(|second| *second < 60)?;

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
    let seconds = days_before(year, month, day) * DAY + hour * HOUR + minute * MINUTE + second - offset;
    Some(Instant { seconds, nanoseconds: nanoseconds_of(fraction.unwrap_or_default()) })
}

/// A number of exactly so many digits.
fn number(text: &str, digits: usize) -> Option<i64> {
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
    let hours = number(hours, 2).filter(|hours| *hours <= 24)?;
    let minutes = number(minutes, 2).filter(|minutes| *minutes <= 60)?;
    Some(sign * (hours * HOUR + minutes * MINUTE))
}

/// The value of the digits of a fraction; digits after the ninth do not count.
fn nanoseconds_of(fraction: &str) -> u32 {
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    digits.fold(0, |value, digit| value * 10 + u32::from(digit.saturating_sub(b'0')))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The days from 1970 to a day, on a calendar that begins its years in March, so that leap days come last.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month > 2 { year } else { year - 1 };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The opposite of [`days_before`].
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

/// A duration as Go's `time.ParseDuration` reads it, in nanoseconds: numbers with units, such as `1m30s` or `1.5h`.
/// Nothing for any other text, and for more than Go can hold.
pub fn duration(text: &str) -> Option<i128> {
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(end)?;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(end)?;
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { i128::from(whole.parse::<u64>().ok()?) };
        total = total.checked_add(whole.checked_mul(unit)?)?;
        // Digits beyond these are less than a nanosecond.
        let mut scale = unit;
        for digit in fraction.bytes().take(18) {
            scale /= 10;
            total = total.checked_add(i128::from(digit - b'0').checked_mul(scale)?)?;
        }
        rest = next;
    }
    let limit = i128::from(i64::MAX) + i128::from(is_negative);
    (total <= limit).then_some(if is_negative { -total } else { total })
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

    #[test]
    fn durations_are_read_as_go_reads_them() {
        // The examples of Go's time.ParseDuration.
        let second = 1_000_000_000;
        for (text, nanoseconds) in [
            ("0", 0),
            ("5s", 5 * second),
            ("1478s", 1478 * second),
            ("-5s", -5 * second),
            ("+5s", 5 * second),
            ("5.6s", 5_600_000_000),
            ("5.s", 5 * second),
            (".5s", second / 2),
            ("10ns", 10),
            ("12µs", 12_000),
            ("3h30m", 12_600 * second),
            ("10.5s4m", 250_500_000_000),
            ("-2m3.4s", -123_400_000_000),
        ] {
            assert_eq!(duration(text), Some(nanoseconds), "{text}");
        }
        for text in ["", "3", "-", "s", ".", "-.", ".s", "+.s", "1d", "5 s", "9223372036854775810ns"] {
            assert_eq!(duration(text), None, "{text}");
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
            let _ = (Instant::parse(&text), Instant::parse_micro(&text), duration(&text));
            let _ = Instant::of_seconds(seconds).to_string();
        }
    }
}
