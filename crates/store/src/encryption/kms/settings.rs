//! What is configured about a plug-in, and its errors.

use std::time::Duration;

use super::envelope::EnvelopeError;
use crate::encryption::cipher::CipherError;

/// A KMS plug-in as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name, which stands in the prefix of values. It has no colon.
    pub name: String,
    /// The absolute path of the Unix socket.
    pub socket: String,
    /// How long one call may take.
    pub timeout: Duration,
    /// When the plug-in is asked.
    pub pace: Pace,
}

/// When a plug-in is asked for its status, and how long writes go on without one.
///
/// DIVERGES: kube-apiserver asks every minute, every ten seconds while the plug-in fails, and for health checks when its last
/// answer is 20 seconds old, or three after a failure. Here a health check never waits, so all questions are asked as often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The time between two questions to a healthy plug-in.
    pub healthy: Duration,
    /// The same for a plug-in that has failed.
    pub failing: Duration,
    /// How long a seed may encrypt after the plug-in has last said that it has the same key.
    pub writes: Duration,
    /// How long [`Kms::ready`](super::Kms::ready) waits. At least twice the timeout is waited.
    pub start: Duration,
}

impl Default for Pace {
    /// The times that kube-apiserver has for health checks, for writes, and for the plug-ins of a reloaded configuration.
    fn default() -> Self {
        Self {
            healthy: Duration::from_secs(20),
            failing: Duration::from_secs(3),
            writes: Duration::from_secs(180),
            start: Duration::from_secs(10),
        }
    }
}

/// A plug-in or an envelope cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KmsError {
    /// The plug-in fails: which one, and how.
    #[error("the KMS plug-in {name:?} at unix://{socket} {problem}")]
    Plugin {
        /// The configured name.
        name: String,
        /// The configured socket.
        socket: String,
        /// What it does wrong, and what to do.
        problem: String,
    },
    /// The stored value is not an envelope.
    #[error("its envelope is damaged: {0}")]
    Envelope(#[from] EnvelopeError),
    /// The value inside the envelope cannot be read or written.
    #[error(transparent)]
    Cipher(#[from] CipherError),
}

impl Settings {
    /// An error of this plug-in.
    pub(super) fn failed(&self, problem: impl Into<String>) -> KmsError {
        KmsError::Plugin { name: self.name.clone(), socket: self.socket.clone(), problem: problem.into() }
    }
}

/// A text of the plug-in in quotes, shortened.
pub(super) fn quoted(text: &str) -> String {
    const MOST: usize = 256;
    format!("{:?}", text.chars().take(MOST).collect::<String>())
}
