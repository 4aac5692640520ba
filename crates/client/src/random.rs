//! Random numbers for jitter. Never for secrets.

/// Returns a random number from 0 up to, and excluding, 1. Returns 0.5 if the system has no random numbers: there is no
/// jitter then, but nothing breaks.
pub fn fraction() -> f64 {
    getrandom::u32().map_or(0.5, |n| f64::from(n) / (f64::from(u32::MAX) + 1.0))
}
