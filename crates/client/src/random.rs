//! Chance, for spreading out what many machines would otherwise do at the same moment. Never for secrets.

/// A number from 0 up to 1, without 1. Without randomness in the system it is 0.5: nothing is spread, nothing breaks.
pub fn fraction() -> f64 {
    getrandom::u32().map_or(0.5, |n| f64::from(n) / (f64::from(u32::MAX) + 1.0))
}
