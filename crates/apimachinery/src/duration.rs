//! Durations as Go reads and prints them, and as the columns of tables show them.

use std::time::Duration;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Parses a duration like Go's `time.ParseDuration`, in nanoseconds: numbers with units, such as `1m30s` or `1.5h`.
/// `None` for any other text, and if Go's type would overflow.
pub fn parse(text: &str) -> Option<i128> {
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

/// A duration that is not negative, as flags give it: numbers with units, such as `30s` or `1m30s`.
pub fn parse_unsigned(text: &str) -> Option<Duration> {
    parse(text).and_then(|nanoseconds| u64::try_from(nanoseconds).ok()).map(Duration::from_nanos)
}

/// Formats a duration as Go does: `30s`, `1m0s`, `1.5s`, `250ms`.
pub fn to_text(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let fraction = |unit: u128| {
        let (whole, rest) = (nanos / unit, nanos % unit);
        let digits = format!("{rest:0width$}", width = unit.ilog10() as usize);
        let digits = digits.trim_end_matches('0');
        if rest == 0 { whole.to_string() } else { format!("{whole}.{digits}") }
    };
    match nanos {
        0 => return "0s".to_owned(),
        1..1_000 => return format!("{nanos}ns"),
        1_000..1_000_000 => return format!("{}µs", fraction(1_000)),
        1_000_000..1_000_000_000 => return format!("{}ms", fraction(1_000_000)),
        _ => {}
    }
    let (hours, minutes) = (duration.as_secs() / 3600, duration.as_secs() / 60 % 60);
    let rest = Duration::new(duration.as_secs() % 60, duration.subsec_nanos());
    let seconds = format!("{:09}", rest.subsec_nanos());
    let seconds = match seconds.trim_end_matches('0') {
        "" => format!("{}s", rest.as_secs()),
        digits => format!("{}.{digits}s", rest.as_secs()),
    };
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, minutes) => format!("{minutes}m{seconds}"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
    }
}

/// Formats a duration in seconds for people, in two or three digits: `5m12s`, `3d4h`. More than a second in the future
/// is `<invalid>`.
pub fn human(seconds: i64) -> String {
    // The larger unit, and the smaller one unless it is zero.
    let both = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    let (minutes, hours, days) = (seconds / MINUTE, seconds / HOUR, seconds / DAY);
    let years = days / 365;
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if minutes < 10 => both(minutes, "m", seconds % MINUTE, "s"),
        _ if hours < 3 => format!("{minutes}m"),
        _ if hours < 8 => both(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => both(days, "d", hours % 24, "h"),
        _ if years < 2 => format!("{days}d"),
        _ if years < 8 => both(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            assert_eq!(parse(text), Some(nanoseconds), "{text}");
        }
        for text in ["", "3", "-", "s", ".", "-.", ".s", "+.s", "1d", "5 s", "9223372036854775810ns"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn durations_read_as_go_prints_them() {
        // From the documentation of Go's time.Duration.String.
        for (milliseconds, text) in [
            (0, "0s"),
            (30_000, "30s"),
            (1_500, "1.5s"),
            (250, "250ms"),
            (60_000, "1m0s"),
            (5_400_000, "1h30m0s"),
        ] {
            assert_eq!(to_text(Duration::from_millis(milliseconds)), text);
        }
        assert_eq!(to_text(Duration::from_micros(1_500)), "1.5ms");
    }

    #[test]
    fn spans_have_two_or_three_figures() {
        const YEAR: i64 = 365 * DAY;
        for (seconds, shown) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (5 * MINUTE + 12, "5m12s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (7 * HOUR + 59 * MINUTE, "7h59m"),
            (8 * HOUR, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (3 * DAY + 4 * HOUR, "3d4h"),
            (8 * DAY, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR - 1, "7y364d"),
            (8 * YEAR + DAY, "8y"),
        ] {
            assert_eq!(human(seconds), shown, "{seconds}");
        }
    }

    proptest! {
        #[test]
        fn no_text_and_no_number_makes_the_readers_panic(text in "[-0-9.+nuµmsh]{0,30}|.*", seconds: i64) {
            let _ = (parse(&text), human(seconds));
        }

        #[test]
        fn what_is_printed_is_read_back(nanoseconds in 0..i64::MAX.unsigned_abs()) {
            let duration = Duration::from_nanos(nanoseconds);
            prop_assert_eq!(parse_unsigned(&to_text(duration)), Some(duration));
        }
    }
}
