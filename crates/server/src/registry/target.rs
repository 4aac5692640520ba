//! The object, collection or subresource that a request addresses.
//!
//! It is derived from the attributes that the authorizers saw, and only if those attributes contain everything that the
//! path says. What was authorized is what is done.

use kinds::Kinds;
use kinds::resource::{Resource, Subresource};
use policy::request_info::RequestInfo;

/// The target of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// The kind in the stored version.
    pub(crate) resource: &'static Resource,
    /// The kind in the version of the path.
    pub(crate) served: &'static Resource,
    /// The subresource, if any.
    pub(crate) subresource: Option<&'static Subresource>,
    /// The namespace; empty for cluster-scoped kinds, and for all namespaces.
    pub(crate) namespace: &'a str,
    /// The name; empty for a collection.
    pub(crate) name: &'a str,
}

impl<'a> Target<'a> {
    /// Returns the target of a path if its kind is known (AP-1 to AP-4).
    pub(crate) fn of(info: &'a RequestInfo, kinds: &Kinds) -> Option<Self> {
        if !info.is_resource_request() {
            return None;
        }
        let served = kinds.find(info.group(), info.version(), info.resource())?;
        let resource = served.current();
        let namespace = if resource.is_namespace { "" } else { info.namespace() };
        let name = if info.is_name_selected() { "" } else { info.name() };
        let subresource = match info.subresource() {
            "" => None,
            name => Some(resource.subresources().iter().find(|sub| sub.name == name)?),
        };
        // AP-3
        let is_in_scope = match resource.is_namespaced {
            true => !namespace.is_empty() || name.is_empty(),
            false => namespace.is_empty(),
        };
        let target = Self { resource, served, subresource, namespace, name };
        (is_in_scope && target.is_all_of(info)).then_some(target)
    }

    /// Returns whether the path contains nothing else.
    fn is_all_of(&self, info: &RequestInfo) -> bool {
        let mut rest = info.path();
        let mut take = |text: &str| match rest.strip_prefix(text) {
            Some(after) => {
                rest = after;
                true
            }
            None => false,
        };
        let prefix = match self.resource.group {
            "" => take("/api/"),
            group => take("/apis/") && take(group) && take("/"),
        };
        // AP-4: a trailing slash is accepted, also after an object. What follows a proxy is the path to pass on.
        let has_path = self.subresource.is_some_and(Subresource::takes_path);
        let ends = |rest: &str| matches!(rest, "" | "/") || has_path && rest.starts_with('/');
        prefix
            && take(self.served.version)
            && {
                take("/watch");
                true
            }
            && (self.namespace.is_empty() || take("/namespaces/") && take(self.namespace))
            && take("/")
            && take(self.resource.plural)
            && (self.name.is_empty() || take("/") && take(self.name))
            && self.subresource.is_none_or(|sub| take("/") && take(sub.name))
            && ends(rest)
    }
}
