//! The clock of a TPM, as it was seen before.

use std::time::SystemTime;

/// The clock of a TPM, as it was seen before (AT-119.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenClock {
    /// How often the TPM had been reset.
    pub reset_count: u32,
    /// How often it had been restarted since.
    pub restart_count: u32,
    /// When this number of resets was first seen.
    pub since: SystemTime,
}
