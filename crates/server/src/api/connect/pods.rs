//! Logs, exec, attach and port forwarding of pods, and proxies to them.

use std::fmt::Write as _;

use kinds::Map;
use portcullis_apimachinery::percent::encode_in_query;
use serde_json::Value;

use super::errand::{Errand, Kind};
use super::location::Place;
use super::log_options::LogOptions;
use super::nodes::{self, Kubelet};
use crate::http::query::Query;
use crate::http::status::Status;
use crate::proxy::dial::{Destination, DialError};
use crate::proxy::kubelets::Kubelets;
use crate::registry::options::is_true;
use crate::registry::request_scope::RequestScope;
use crate::registry::{meta, write};

/// The most names of containers that an error lists.
const LISTED: usize = 100;

/// The log of a container; none if the pod has no node yet, and so no log.
///
/// # Errors
/// There is no such pod, container or node.
pub(super) async fn log(
    scope: &RequestScope<'_>,
    kubelets: &Kubelets,
    options: &LogOptions,
) -> Result<Option<Errand>, Status> {
    let pod = pod(scope, scope.target.name).await?;
    let container = container(&pod, &options.container)?;
    let Some(node) = node_name(&pod) else { return Ok(None) };
    let kubelet = nodes::kubelet(scope, &kubelets.settings, node).await?;
    let path = format!("/containerLogs/{}/{container}", full_name(&pod));
    let to = destination(kubelets, &kubelet, options.skips_verification)?;
    let kind = Kind::Log { pod: scope.target.name.to_owned() };
    Ok(Some(Errand { to, path_and_query: with_query(path, &options.query), kind }))
}

/// Exec, attach or port forwarding.
///
/// # Errors
/// There is no such pod, container or node, or the pod has no node yet.
pub(super) async fn stream(
    scope: &RequestScope<'_>,
    kubelets: &Kubelets,
    subresource: &str,
    query: &Query,
) -> Result<Errand, Status> {
    let pod = pod(scope, scope.target.name).await?;
    let (path, query) = match subresource {
        "portforward" => (format!("/portForward/{}", full_name(&pod)), ports(query)?),
        name => {
            let container = container(&pod, query.first("container").unwrap_or_default())?;
            (format!("/{name}/{}/{container}", full_name(&pod)), streams(query, name == "exec"))
        }
    };
    let Some(node) = node_name(&pod) else {
        let name = scope.target.name;
        return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
    };
    let kubelet = nodes::kubelet(scope, &kubelets.settings, node).await?;
    let to = destination(kubelets, &kubelet, false)?;
    let kind = Kind::Stream { takes_all: kubelet.takes_all };
    Ok(Errand { to, path_and_query: with_query(path, &query), kind })
}

/// The destination of a proxy to a pod: its address, at the named port or the first port of its containers.
///
/// # Errors
/// 400 for a place or an address that is not allowed.
pub(super) async fn proxied(scope: &RequestScope<'_>, kubelets: &Kubelets) -> Result<Destination, Status> {
    let id = scope.target.name;
    let invalid = || Status::bad_request(format!("invalid pod request {id:?}"));
    let place = Place::of(id).ok_or_else(invalid)?;
    let pod = pod(scope, place.name).await?;
    let port = match place.port {
        "" => first_port(&pod).unwrap_or(if place.is_https { 443 } else { 80 }),
        _ => place.number().ok_or_else(invalid)?,
    };
    let ip = pod.get("status").and_then(|status| status.get("podIP")).and_then(Value::as_str);
    // A name is no address: nothing is looked up.
    let ip = ip.filter(|ip| ip.parse().is_ok_and(|ip| kubelets.addresses.allows(ip)));
    let host = ip.ok_or_else(|| Status::bad_request("address not allowed"))?.to_owned();
    Ok(Destination { host, port, tls: place.is_https.then(|| kubelets.stranger()) })
}

async fn pod(scope: &RequestScope<'_>, name: &str) -> Result<Map, Status> {
    let resource = scope.target.resource;
    let found = write::find(scope.backend, resource, scope.target.namespace, name).await?;
    Ok(found.ok_or_else(|| Status::no_object(resource.group, resource.plural, name))?.object)
}

fn destination(kubelets: &Kubelets, kubelet: &Kubelet, skips: bool) -> Result<Destination, Status> {
    let tls = kubelets
        .tls(skips)
        .map_err(|error: DialError| Status::unknown(format!("error dialing backend: {error}")))?;
    Ok(Destination { host: kubelet.host.clone(), port: kubelet.port, tls: Some(tls) })
}

fn full_name(pod: &Map) -> String {
    format!("{}/{}", meta::text(pod, "namespace"), meta::text(pod, "name"))
}

fn with_query(path: String, query: &str) -> String {
    if query.is_empty() { path } else { format!("{path}?{query}") }
}

fn spec<'a>(pod: &'a Map, field: &str) -> Option<&'a Value> {
    pod.get("spec")?.get(field)
}

fn node_name(pod: &Map) -> Option<&str> {
    spec(pod, "nodeName")?.as_str().filter(|name| !name.is_empty())
}

fn names<'a>(pod: &'a Map, field: &str) -> Vec<&'a str> {
    let containers = spec(pod, field).and_then(Value::as_array).into_iter().flatten();
    containers.filter_map(|container| container.get("name")?.as_str()).collect()
}

fn first_port(pod: &Map) -> Option<u16> {
    let containers = spec(pod, "containers")?.as_array()?;
    let port = containers.iter().find_map(|container| container.get("ports")?.get(0)?.get("containerPort"));
    u16::try_from(port?.as_u64()?).ok()
}

/// The container that is meant: the named one, or the only one.
///
/// # Errors
/// 400, in the words of Kubernetes.
fn container<'a>(pod: &'a Map, asked: &'a str) -> Result<&'a str, Status> {
    let of = |field| names(pod, field);
    let [containers, init, ephemeral] = [of("containers"), of("initContainers"), of("ephemeralContainers")];
    let name = meta::text(pod, "name");
    if !asked.is_empty() {
        let known = [&containers, &init, &ephemeral].into_iter().flatten().any(|known| *known == asked);
        return match known {
            true => Ok(asked),
            false => Err(Status::bad_request(format!("container {asked} is not valid for pod {name}"))),
        };
    }
    if let [only] = containers.as_slice() {
        return Ok(only);
    }
    let mut message = format!("a container name must be specified for pod {name}");
    let list = |names: &[&str]| names.iter().take(LISTED).copied().collect::<Vec<_>>().join(" ");
    if !containers.is_empty() {
        // Writing to a string does not fail.
        let _ = write!(message, ", choose one of: [{}]", list(&containers));
        for (names, kind) in [(&init, "init"), (&ephemeral, "ephemeral")] {
            if !names.is_empty() {
                let _ = write!(message, " or one of the {kind} containers: [{}]", list(names));
            }
        }
    }
    Err(Status::bad_request(message))
}

/// The query for exec and attach.
fn streams(query: &Query, has_command: bool) -> String {
    let mut pairs: Vec<String> = Vec::new();
    if has_command {
        pairs.extend(query.values("command").map(|word| format!("command={}", encode_in_query(word))));
    }
    for (option, name) in [("stderr", "error"), ("stdin", "input"), ("stdout", "output"), ("tty", "tty")] {
        if query.first(option).is_some_and(is_true) {
            pairs.push(format!("{name}=1"));
        }
    }
    pairs.join("&")
}

/// The query for port forwarding: only WebSockets of the older kind name the ports in it.
fn ports(query: &Query) -> Result<String, Status> {
    let mut ports: Vec<String> = Vec::new();
    for text in query.values("ports") {
        let port: i32 = text.parse().map_err(|_| {
            Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
        })?;
        ports.push(port.to_string());
    }
    Ok(if ports.is_empty() { String::new() } else { format!("port={}", encode_in_query(&ports.join(","))) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(containers: &[&str], init: &[&str], ephemeral: &[&str]) -> Map {
        let of = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
        let spec = json!({"containers": of(containers), "initContainers": of(init), "ephemeralContainers": of(ephemeral)});
        json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec}).as_object().unwrap().clone()
    }

    #[test]
    fn a_container_is_the_only_one_or_is_named() {
        let message = |pod: &Map, asked: &str| container(pod, asked).unwrap_err().message().to_owned();
        assert_eq!(container(&pod(&["a"], &["i"], &[]), "").unwrap(), "a");
        let many = pod(&["a", "b"], &["i", "j"], &["e"]);
        for known in ["a", "b", "i", "j", "e"] {
            assert_eq!(container(&many, known).unwrap(), known);
        }
        assert_eq!(message(&many, "x"), "container x is not valid for pod p");
        assert_eq!(
            message(&many, ""),
            "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i j] \
             or one of the ephemeral containers: [e]"
        );
        assert_eq!(message(&pod(&[], &[], &[]), ""), "a container name must be specified for pod p");
    }

    #[test]
    fn options_become_those_of_the_kubelet() {
        let query = Query::parse(
            "command=sh&command=-c&command=a%26b&stdin=true&stdout=1&stderr=false&tty=true&container=c",
        );
        assert_eq!(streams(&query, true), "command=sh&command=-c&command=a%26b&input=1&output=1&tty=1");
        assert_eq!(streams(&query, false), "input=1&output=1&tty=1");
        assert_eq!(ports(&Query::parse("ports=80&ports=81")).unwrap(), "port=80%2C81");
        assert_eq!(ports(&Query::parse("")).unwrap(), "");
        assert!(ports(&Query::parse("ports=a")).is_err());
    }
}
