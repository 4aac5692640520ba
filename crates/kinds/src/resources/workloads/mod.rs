//! Kinds that make pods from templates: deployments, replica sets, stateful sets, daemon sets, replication controllers,
//! jobs and cron jobs, and what belongs to them.
//!
//! The controllers behind them are not part of this program; clients such as kube-controller-manager run them.
//!
//! DIVERGES: the validation of these kinds, and of the others that are only kept for such clients, has the rules that
//! clients meet: required and immutable fields, selectors, templates, ranges of numbers. Rarer rules of kube-apiserver are
//! missing: expressions are not compiled, schedules not read, statuses checked for negative numbers alone.

mod controller_revisions;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod jobs;
mod pod_templates;
mod replica_sets;
mod replication_controllers;
mod rollout;
pub(crate) mod scale;
mod stateful_sets;
mod templates;

pub use controller_revisions::CONTROLLER_REVISIONS;
pub use cron_jobs::CRON_JOBS;
pub use daemon_sets::DAEMON_SETS;
pub use deployments::DEPLOYMENTS;
pub use jobs::JOBS;
pub use pod_templates::POD_TEMPLATES;
pub use replica_sets::REPLICA_SETS;
pub use replication_controllers::REPLICATION_CONTROLLERS;
pub(super) use rollout::share_errors;
pub use stateful_sets::STATEFUL_SETS;

use crate::resource::{MetadataChecks, Resource};

/// The values shared by the kinds of `apps`.
const APPS: Resource = Resource {
    group: "apps",
    metadata_checks: MetadataChecks { alone: 0, as_update: 1, knows_finalizers: true },
    ..Resource::USUAL
};

/// The values shared by the kinds of `batch`.
const BATCH: Resource = Resource { group: "batch", ..APPS };
