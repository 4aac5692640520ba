//! The parts of pods and templates that the checks read.

use crate::Map;
use crate::fields::Members;
use crate::resources::pods::CONTAINER_LISTS;

/// A pod, or the pod template of another object, as the standards see it.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a> {
    pub(super) annotations: &'a Map,
    pub(super) spec: &'a Map,
}

impl<'a> Pod<'a> {
    /// A pod, or a template: an object with `metadata` and `spec`.
    pub fn of(pod: &'a Map) -> Self {
        Self { annotations: pod.metadata().object("annotations"), spec: pod.object("spec") }
    }

    /// The name of the RuntimeClass; empty if it has none.
    pub fn runtime_class(self) -> &'a str {
        self.spec.text("runtimeClassName")
    }

    /// All containers: init containers, containers, ephemeral containers.
    pub(super) fn containers(self) -> impl Iterator<Item = &'a Map> {
        CONTAINER_LISTS.iter().flat_map(move |list| self.spec.objects(list))
    }

    /// The security context of the pod.
    pub(super) fn security(self) -> &'a Map {
        self.spec.object("securityContext")
    }

    /// Whether the pod runs on Windows, where some checks make no sense.
    pub(super) fn is_windows(self) -> bool {
        self.spec.object("os").text("name") == "windows"
    }

    /// Whether the users of the pod are others than those of the host.
    pub(super) fn has_own_users(self) -> bool {
        self.spec.flag("hostUsers") == Some(false)
    }
}
