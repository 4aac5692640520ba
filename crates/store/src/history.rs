//! How much history a store keeps.

use std::time::Duration;

/// How much history is kept in memory. When a limit is exceeded, the oldest commits are forgotten first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// The most commits.
    pub commits: usize,
    /// The most bytes of replaced and removed values.
    pub bytes: usize,
    /// How long a commit is kept; a quarter longer is possible, but at most ten seconds.
    pub age: Duration,
}

impl Default for History {
    /// 100,000 commits, 32 MiB, and five minutes, the interval at which kube-apiserver compacts etcd.
    fn default() -> Self {
        Self { commits: 100_000, bytes: 32 << 20, age: Duration::from_mins(5) }
    }
}
