//! Priority: sets the priority of a pod's priority class (AP-110).

use kinds::Map;
use kinds::resources::pods::{PODS, admission};
use kinds::resources::priority_classes::PRIORITY_CLASSES;

use super::plugin::{Plugin, Rule};
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};
use crate::registry::meta;

/// See the module.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "Priority",
    rules: &[Rule { operations: &[Operation::Create, Operation::Update], resource: &PODS, subresource: "" }],
    admit: |attributes, _| Box::pin(admit(attributes)),
    ..Plugin::NONE
};

async fn admit(attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
    if let (Some(pod), Some(old)) = (attributes.object.as_deref_mut(), attributes.old) {
        admission::keep_priority(pod, old);
        return Ok(());
    }
    let Some(name) = attributes.object.as_deref().map(|pod| admission::priority_class(pod).to_owned()) else {
        return Ok(());
    };
    let class = match name.as_str() {
        "" => admission::default_priority_class(&attributes.all(&PRIORITY_CLASSES).await?).cloned(),
        name => attributes.stored(&PRIORITY_CLASSES, "", name).await?,
    };
    let Some(pod) = attributes.object.as_deref_mut() else { return Ok(()) };
    if let (true, Some(class)) = (name.is_empty(), &class) {
        admission::set_priority_class(pod, class);
    }
    let priority = |name: &str| priority(name, class.as_ref());
    admission::admit_priority(pod, priority).map_err(|why| attributes.forbidden(&why, Vec::new()))
}

/// The classes that every cluster has count even after somebody has deleted them.
fn priority(name: &str, class: Option<&Map>) -> Option<admission::Priority> {
    let found = class.filter(|class| meta::text(class, "name") == name).map(admission::Priority::of_class);
    found.or_else(|| admission::built_in_priority(name))
}
