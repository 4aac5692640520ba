//! The Pod Security Standards: which pods a namespace takes, by the labels `pod-security.kubernetes.io/…` of the
//! namespace. A level has checks, and a check may differ between versions of Kubernetes.
//!
//! Pure functions over pods and labels. Nothing here looks up a namespace or refuses a request.

mod checks;
mod pod;
mod policy;
mod update;

use crate::Map;
use crate::fields::Members;
use crate::resource::Resource;
use crate::resources::pods::PODS;
use crate::resources::workloads::{
    CRON_JOBS, DAEMON_SETS, DEPLOYMENTS, JOBS, POD_TEMPLATES, REPLICA_SETS, REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
};

pub use checks::{Violation, violations};
pub use pod::Pod;
pub use policy::{Level, NO_LEVEL, NO_VERSION, Policy, Standard, Version};
pub use update::is_significant;

/// Whether objects of this kind are pods or have a template of pods.
pub fn is_about_pods(resource: &Resource) -> bool {
    *resource == PODS || template_path(resource).is_some()
}

/// The template of the pods that an object makes; nothing if it has none.
pub fn template<'a>(resource: &Resource, object: &'a Map) -> Option<Pod<'a>> {
    let mut at = object;
    for member in template_path(resource)? {
        at = at.object_if_set(member)?;
    }
    Some(Pod::of(at))
}

fn template_path(resource: &Resource) -> Option<&'static [&'static str]> {
    let with_template =
        [&REPLICATION_CONTROLLERS, &REPLICA_SETS, &DEPLOYMENTS, &STATEFUL_SETS, &DAEMON_SETS, &JOBS];
    if *resource == POD_TEMPLATES {
        return Some(&["template"]);
    }
    if *resource == CRON_JOBS {
        return Some(&["spec", "jobTemplate", "spec", "template"]);
    }
    with_template.contains(&resource).then_some(&["spec", "template"])
}
