//! The audit log in the format of Kubernetes (`audit.k8s.io/v1`): who asked for what, how it was decided, and how it
//! was answered.
//!
//! Every request carries a [`Trail`] from start to end. One thread writes the events that the [`Policy`] selects as
//! lines of JSON. A request gets a place in its queue before it is worked on; until an event is written requests wait only
//! in blocking mode.

mod event;
mod file;
mod level;
mod log;
mod metrics;
pub mod policy;
mod queue;
mod rule;
pub mod sink;
pub(crate) mod trail;
mod wanted;

pub use level::{Level, Stage, Stages};
pub use log::Audit;
pub use metrics::{AuditMetrics, SinkMetrics};
pub use policy::{Policy, PolicyError};
pub(crate) use queue::Class;
pub use sink::{Mode, Sink, SinkError, SinkOptions, WhenFull};
pub use trail::{AUDIT_ID, Trail};
