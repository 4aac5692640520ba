//! Building blocks of metrics. Each part of the server has its own metrics, and registers them.
//!
//! Label values come from closed sets (routes, methods, codes), never from what a caller sends. Counting takes no lock
//! on the hot paths.

mod counted;
mod features;
mod process;
mod reload;
mod timing;

pub(crate) use self::counted::Counted;
pub use self::features::FeatureMetrics;
pub use self::process::ProcessMetrics;
pub use self::reload::ReloadMetrics;
pub(crate) use self::reload::sha256_text;
pub(crate) use self::timing::{ACCESS_SECONDS, Durations, Timing};
