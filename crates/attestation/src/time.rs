//! Times between the forms of the standard library and of objects.

use std::time::{Duration, SystemTime};

use portcullis_apimachinery::time::Instant;

/// Converts a time of an object. One that the system cannot represent is long past.
pub fn system_time(instant: Instant) -> SystemTime {
    let seconds = u64::try_from(instant.seconds).unwrap_or(0);
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Converts a time to the form of objects, in whole seconds. Before 1970 it is the first second of 1970.
pub fn instant(time: SystemTime) -> Instant {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    Instant::of_seconds(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// How far two times are apart.
pub(crate) fn distance(one: SystemTime, other: SystemTime) -> Duration {
    one.duration_since(other).unwrap_or_else(|earlier| earlier.duration())
}
