//! Where a request about objects leads.

use http::Method;
use kinds::resource::Endpoint;
use policy::request_info::RequestInfo;

use super::route::{Action, Route, Row, Scope};
use crate::registry::target::Target;

/// Returns the route of the request by the verb that was authorized (AP-2).
pub(crate) fn route(target: &Target<'_>, info: &RequestInfo, method: &Method) -> Route {
    let is_collection = target.name.is_empty();
    if target.resource.action.is_some() {
        return route_of_action(target, method);
    }
    if let Endpoint::Connect = target.resource.endpoint(target.subresource) {
        return route_of_connection(target, info, method);
    }
    let is_everywhere = target.resource.is_namespaced && target.namespace.is_empty();
    if target.resource.custom.is_some()
        && let Some(route) = route_of_custom(target, info, method, is_everywhere)
    {
        return route;
    }
    let action = match (method.as_str(), info.verb()) {
        ("GET", "watch") if target.subresource.is_none() => Action::Watch,
        ("GET", "list") if is_collection => Action::List,
        ("GET", "get") if !is_collection => Action::Get,
        ("POST", "create") if is_collection != target.subresource.is_some() && !is_everywhere => {
            Action::Create
        }
        ("PUT", "update") if !is_collection => Action::Update,
        ("PATCH", "patch") if !is_collection => Action::Patch,
        ("DELETE", "delete") if !is_collection => Action::Delete,
        ("DELETE", "deletecollection") if is_collection && !is_everywhere => Action::DeleteCollection,
        _ => return Route::MethodNotAllowed,
    };
    let verbs = target.subresource.map_or(target.resource.verbs, |subresource| subresource.verbs);
    if !verbs.contains(&action.verb()) {
        return Route::MethodNotAllowed;
    }
    // As kube-apiserver registers its routes: a POST concerns the one object that it makes.
    let scope = match action {
        _ if !is_collection || action == Action::Create => Scope::Resource,
        _ if target.namespace.is_empty() => Scope::Cluster,
        _ => Scope::Namespace,
    };
    let subresource = target.subresource.map_or("", |subresource| subresource.name);
    Route::Object { row: Row(target.served), subresource, action, scope }
}

/// Where Kubernetes leads requests for custom objects elsewhere than for others; none for all other requests.
fn route_of_custom(
    target: &Target<'_>,
    info: &RequestInfo,
    method: &Method,
    is_everywhere: bool,
) -> Option<Route> {
    let is_object = target.subresource.is_none();
    let action = match info.verb() {
        "create" | "deletecollection" if is_everywhere => return Some(Route::PageNotFound),
        // The answer has no body.
        "get" if method == Method::HEAD && is_object && !target.name.is_empty() => Action::Get,
        "list" if method == Method::HEAD && is_object => Action::List,
        // The name is that of the body.
        "create" if is_object && !target.name.is_empty() => Action::Create,
        // The body cannot have the name of the path.
        "update" if is_object && target.name.is_empty() => Action::Update,
        _ => return None,
    };
    Some(Route::Object { row: Row(target.served), subresource: "", action, scope: Scope::Resource })
}

/// A connection: logs are read, commands and ports are opened, and proxies take every method.
fn route_of_connection(target: &Target<'_>, info: &RequestInfo, method: &Method) -> Route {
    let subresource = target.subresource.map_or("", |subresource| subresource.name);
    let methods: &[&str] = match subresource {
        "log" => &["GET"],
        "proxy" => &["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"],
        _ => &["GET", "POST"],
    };
    // A verb of the path (AC-20) is not that of the method.
    let is_usual = !matches!(info.verb(), "watch" | "proxy");
    match methods.contains(&method.as_str()) && is_usual && !target.name.is_empty() {
        true => Route::Object {
            row: Row(target.served),
            subresource,
            action: Action::Connect,
            scope: Scope::Resource,
        },
        false => Route::MethodNotAllowed,
    }
}

/// AP-120: what is acted on and not stored can only be posted.
fn route_of_action(target: &Target<'_>, method: &Method) -> Route {
    match (target.namespace, target.name, method) {
        ("", ..) => Route::NotFound,
        (_, "", &Method::POST) => Route::Object {
            row: Row(target.resource),
            subresource: "",
            action: Action::Create,
            scope: Scope::Resource,
        },
        (_, "", _) => Route::MethodNotAllowed,
        _ => Route::NotFound,
    }
}
