//! Envelope encryption with a KMS plug-in, as kube-apiserver's provider `kms` in version v2 does it (ET-50).
//!
//! The plug-in holds the key. It is a gRPC server behind a Unix socket, and never sees a value: each process makes a random
//! seed and lets the plug-in encrypt it. Values are encrypted under the seed, and each carries the encrypted seed in its
//! [`Envelope`]. So writing a value needs no call, and reading one needs a call only for a seed that this process has not seen.
//!
//! [`Kms::start`] starts one thread. It asks for the status of the plug-in, makes a new seed when the plug-in has a new key,
//! and makes all calls. A call for an unknown seed blocks its caller until the plug-in answers, at most for the timeout: the
//! embedded store only reads values while it opens its file.
//!
//! If the plug-in fails, known seeds still decrypt. They encrypt for three more minutes, as in kube-apiserver: whoever moves
//! to a new key must know when nothing writes with the old one any more.

mod envelope;
mod plugin;
mod seeds;
mod service;
mod settings;
mod worker;

pub use self::envelope::{Envelope, EnvelopeError, SeedKind, SeedSource};
pub use self::plugin::Kms;
pub use self::settings::{KmsError, Pace, Settings};
