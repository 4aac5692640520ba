//! Times as objects hold them, and spans as tables show them.

pub use portcullis_policy::time::{Instant, TimeError};

use crate::table::UNKNOWN;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// How long ago a `Time` was, as the columns of tables show it; `<unknown>` when it is not set (AP-92).
pub fn age(time: Option<&str>, now: i64) -> String {
    match time.and_then(|text| Instant::parse(text).ok()) {
        Some(time) if time != Instant::ZERO => human_duration(now.saturating_sub(time.seconds)),
        _ => UNKNOWN.to_owned(),
    }
}

/// A span of seconds for humans, in two or three figures: `5m12s`, `3d4h`. What lies more than a second in the future
/// is `<invalid>`.
pub fn human_duration(seconds: i64) -> String {
    // The larger unit, and the smaller one unless there are none of it.
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
            assert_eq!(human_duration(seconds), shown, "{seconds}");
        }
        assert_eq!(age(None, 5), UNKNOWN);
        assert_eq!(age(Some("0001-01-01T00:00:00Z"), 5), UNKNOWN);
        assert_eq!(age(Some("1970-01-01T00:00:00Z"), 5), "5s");
    }

    proptest! {
        #[test]
        fn no_text_and_no_number_stops_the_clock(text in "[-0-9TZ:.,+]{0,30}|.*", seconds: i64) {
            let _ = (age(Some(&text), seconds), human_duration(seconds));
        }
    }
}
