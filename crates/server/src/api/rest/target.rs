//! Which object, collection or subresource a request is about.
//!
//! It is read from the same attributes that the authorizers saw, and only where those attributes say all that the
//! path says: what was allowed is what is done.

use http::Method;
use kinds::resource::{Resource, Subresource};
use policy::request_info::RequestInfo;
use portcullis_kinds as kinds;
use portcullis_policy as policy;

use super::binding::BINDINGS;
use crate::api::route::{Action, Route, Row};
use crate::config::RuntimeConfig;

/// What a request is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// The kind, as it is stored.
    pub(crate) resource: &'static Resource,
    /// The same kind in the version that the path names.
    pub(crate) served: &'static Resource,
    /// What is below the object, if the request is about that.
    pub(crate) subresource: Option<&'static Subresource>,
    /// The namespace; empty for cluster-scoped kinds, and for all namespaces.
    pub(crate) namespace: &'a str,
    /// The name; empty for a collection.
    pub(crate) name: &'a str,
}

impl<'a> Target<'a> {
    /// What the path is about, if that is a kind that is known (AP-1 to AP-4).
    pub(crate) fn of(info: &'a RequestInfo, runtime: RuntimeConfig) -> Option<Self> {
        if !info.is_resource_request() {
            return None;
        }
        let resource = find(info.group(), info.resource())?;
        let served = match resource.version == info.version() {
            true => resource,
            false => runtime.resources().find(|other| {
                (other.group, other.version, other.plural) == (info.group(), info.version(), info.resource())
            })?,
        };
        let is_namespace = resource.group.is_empty() && resource.plural == "namespaces";
        let namespace = if is_namespace { "" } else { info.namespace() };
        let name = if info.is_name_selected() { "" } else { info.name() };
        let subresource = match info.subresource() {
            "" => None,
            name => Some(resource.subresources.iter().find(|sub| sub.name == name)?),
        };
        // AP-3
        let is_in_scope = match resource.is_namespaced {
            true => !namespace.is_empty() || name.is_empty(),
            false => namespace.is_empty(),
        };
        let target = Self { resource, served, subresource, namespace, name };
        (is_in_scope && target.is_all_of(info)).then_some(target)
    }

    /// Whether the path holds nothing else.
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
        // AP-4: a trailing slash is accepted, after an object as well.
        let ends = |rest: &str| matches!(rest, "" | "/");
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

    /// What the request wants, by the verb that the authorizers were asked for (AP-2).
    pub(crate) fn route(&self, info: &RequestInfo, method: &Method) -> Route {
        let is_collection = self.name.is_empty();
        if std::ptr::eq(self.resource, &raw const BINDINGS) {
            return self.route_of_bindings(method);
        }
        let is_everywhere = self.resource.is_namespaced && self.namespace.is_empty();
        let action = match (method.as_str(), info.verb()) {
            ("GET", "watch") if self.subresource.is_none() => Action::Watch,
            ("GET", "list") if is_collection => Action::List,
            ("GET", "get") if !is_collection => Action::Get,
            ("POST", "create") if is_collection != self.subresource.is_some() && !is_everywhere => {
                Action::Create
            }
            ("PUT", "update") if !is_collection => Action::Update,
            ("PATCH", "patch") if !is_collection => Action::Patch,
            ("DELETE", "delete") if !is_collection => Action::Delete,
            ("DELETE", "deletecollection") if is_collection && !is_everywhere && !self.is_namespaces() => {
                Action::DeleteCollection
            }
            _ => return Route::MethodNotAllowed,
        };
        if let Some(subresource) = self.subresource
            && !subresource.verbs.contains(&action.verb())
        {
            return Route::MethodNotAllowed;
        }
        Route::Object { row: Row(self.served), subresource: self.subresource.map_or("", |s| s.name), action }
    }

    /// AP-120: bindings are only made.
    fn route_of_bindings(&self, method: &Method) -> Route {
        match (self.namespace, self.name, method) {
            ("", ..) => Route::NotFound,
            (_, "", &Method::POST) => {
                Route::Object { row: Row(self.resource), subresource: "", action: Action::Create }
            }
            (_, "", _) => Route::MethodNotAllowed,
            _ => Route::NotFound,
        }
    }

    fn is_namespaces(&self) -> bool {
        self.resource.group.is_empty() && self.resource.plural == "namespaces"
    }
}

/// The kind that a path names, stored or not.
fn find(group: &str, plural: &str) -> Option<&'static Resource> {
    match (group, plural) {
        ("", "bindings") => Some(&BINDINGS),
        _ => kinds::resources::find(group, plural),
    }
}
