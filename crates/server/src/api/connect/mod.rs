//! Connections through the API server: logs, exec, attach and port forwarding, which a kubelet serves, and proxies to nodes,
//! pods and services (KA-82 to KA-85, NR-112).
//!
//! A request is passed on when everything about it is known: the right to `create` where something runs (KA-83, AC-140), what
//! admission webhooks say of its options (CONNECT), the object, the address, and a place among those that are open. It ends with
//! the right to it, as a watch does.
//!
//! DIVERGES: an upgrade over `nodes/proxy` needs the right to `create`, because it runs commands in every pod of the node;
//! kube-apiserver asks for the verb of the method (`--node-proxy-upgrade-requires-create=false`).

mod errand;
mod forward;
mod location;
mod log_options;
mod log_status;
mod nodes;
mod options;
mod pods;
mod services;

use std::sync::Arc;

use http::Method;
use http::header::WARNING;
use http::request::Parts;
use hyper::body::Incoming;
use kinds::resource::Subresource;
use policy::request_info::RequestInfo;

use self::errand::{Errand, Kind};
use super::app::App;
use super::connections::Opened;
use super::watch_rights::WatchRights;
use crate::authn::Peer;
use crate::authz::Permit;
use crate::http::listener::Connection;
use crate::http::query::Query;
use crate::http::status::{Answer, Status};
use crate::http::warning;
use crate::proxy::upgrade;
use crate::registry::admission::Operation;
use crate::registry::options::WriteOptions;
use crate::registry::request_scope::RequestScope;
use crate::registry::target::Target;

/// The subresources that run something in a pod, or reach it. A GET, as of a WebSocket, needs `create` as a POST does.
const RUNNING: [&str; 3] = ["attach", "exec", "portforward"];

/// A connection that was allowed.
pub(super) struct Connecting<'a> {
    pub(super) app: &'a Arc<App>,
    pub(super) connection: &'a Arc<Connection<Peer>>,
    pub(super) permit: Permit,
    pub(super) info: &'a RequestInfo,
    pub(super) target: Target<'a>,
    pub(super) head: &'a Parts,
    pub(super) rights: Box<WatchRights>,
    /// Counts it.
    pub(super) opened: Opened,
}

/// Passes the request on. Takes the body if it is passed on as well.
///
/// # Errors
/// The request is refused, or the other server cannot be reached.
pub(super) async fn answer(
    connecting: Connecting<'_>,
    body: &mut Option<Incoming>,
) -> Result<Answer, Status> {
    let Connecting { app, connection, permit, info, target, head, mut rights, opened } = connecting;
    let subresource = target.subresource.map_or("", |subresource| subresource.name);
    let kubelets = &app.kubelets;
    let runs = RUNNING.contains(&subresource)
        || target.resource.plural == "nodes"
            && upgrade::asked(head).is_some()
            && kubelets.settings.upgrade_creates;
    let must_create = runs && head.method != Method::POST;

    let admission = app.gate(&permit, info);
    let scope = RequestScope {
        backend: app.backend(),
        definition: None,
        admission: &admission,
        user: permit.user(),
        target,
        part: None,
        update: target.resource.update(),
        kinds: app.kinds(),
        allocating: &app.allocating,
        service_ranges: &app.service_ranges,
    };
    // Whoever may not make the connection learns no more than that (AC-140, KA-83, NC-16).
    if must_create {
        scope.admission.allow_also("create").await?;
    }
    let query = Query::parse(head.uri.query().unwrap_or_default());
    if let Some(subresource) = target.subresource.filter(|subresource| subresource.name != "log") {
        let mut document = options::document(subresource, &target, info, &query);
        let write = WriteOptions::default();
        scope.admit(Operation::Connect, target.name, &write, Some(&mut document), None).await?;
        scope.validate(Operation::Connect, target.name, &write, Some(&mut document), None).await?;
    }
    let options = if subresource == "log" { Some(log_options::read(&query, target.name)?) } else { None };
    scope.wait_for_read("", Status::unknown).await?;
    let errand = match (&options, target.subresource.is_some_and(Subresource::takes_path), subresource) {
        (Some(options), ..) => match pods::log(&scope, kubelets, options).await? {
            Some(errand) => errand,
            None => return Ok(forward::no_content()),
        },
        (None, false, name) => pods::stream(&scope, kubelets, name, &query).await?,
        (None, true, _) => {
            let rest = location::rest(head, &target).ok_or_else(Status::not_found)?;
            let to = match target.resource.plural {
                "nodes" => nodes::proxied(&scope, kubelets).await?,
                "pods" => pods::proxied(&scope, kubelets).await?,
                _ => services::proxied(&scope, kubelets).await?,
            };
            Errand { to, path_and_query: rest.path_and_query, kind: Kind::Proxy { prefix: rest.prefix } }
        }
    };
    if must_create {
        rights.need_also("create");
    }
    let passing = forward::Passing { app, connection, head, rights, opened };
    let mut answer = forward::pass(passing, errand, body).await?;
    for warning in warning::headers(admission.warnings()) {
        answer.headers_mut().append(WARNING, warning);
    }
    Ok(answer)
}
