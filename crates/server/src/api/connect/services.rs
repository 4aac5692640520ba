//! Proxies to services: one of the endpoints, by the Endpoints of the service or by its EndpointSlices.

use kinds::Map;
use kinds::resources::core::endpoints::ENDPOINTS;
use kinds::resources::core::services::SERVICES;
use kinds::resources::endpoint_slices::ENDPOINT_SLICES;
use kinds::resources::pods::PODS;
use portcullis_store::Entry;
use serde_json::Value;

use super::location::Place;
use crate::http::status::Status;
use crate::proxy::dial::Destination;
use crate::proxy::kubelets::Kubelets;
use crate::registry::request_scope::RequestScope;
use crate::registry::storage::Stored;
use crate::registry::write;

/// The label of a slice with the name of its service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The most endpoints that are looked at for one that can be used.
const MOST_TRIED: usize = 100;

/// An endpoint.
#[derive(Debug, PartialEq, Eq)]
struct Endpoint {
    address: String,
    port: u16,
    /// The namespace and name of its pod.
    pod: (String, String),
}

/// The destination of a proxy to a service: an endpoint of the named port that is a pod of the same namespace, as in Kubernetes.
///
/// # Errors
/// 400 for a place or an address that is not allowed, 503 if there is no endpoint.
pub(super) async fn proxied(scope: &RequestScope<'_>, kubelets: &Kubelets) -> Result<Destination, Status> {
    let (id, namespace) = (scope.target.name, scope.target.namespace);
    let place =
        Place::of(id).ok_or_else(|| Status::bad_request(format!("invalid service request {id:?}")))?;
    let port = match place.number() {
        Some(number) => port_name(scope, place.name, number).await?,
        None => place.port.to_owned(),
    };
    let mut endpoints = of_endpoints(scope, place.name, &port).await?;
    if endpoints.is_empty() {
        endpoints = of_slices(scope, place.name, &port).await?;
    }
    let (after, before) = endpoints.split_at(start(endpoints.len()));
    for endpoint in before.iter().chain(after).take(MOST_TRIED) {
        if endpoint.pod.0 == namespace && is_of_pod(scope, endpoint).await? {
            let is_allowed = endpoint.address.parse().is_ok_and(|ip| kubelets.addresses.allows(ip));
            if !is_allowed {
                return Err(Status::bad_request("address not allowed"));
            }
            let (host, port) = (endpoint.address.clone(), endpoint.port);
            return Ok(Destination { host, port, tls: place.is_https.then(|| kubelets.stranger()) });
        }
    }
    Err(Status::unavailable(format!("no endpoints available for service {id:?}")))
}

/// A place among so many, at random.
fn start(count: usize) -> usize {
    let mut random = [0; 8];
    // Without random numbers the first is taken.
    let _ = getrandom::fill(&mut random);
    usize::from_ne_bytes(random).checked_rem(count).unwrap_or(0)
}

/// The name of the port of a service with this number.
async fn port_name(scope: &RequestScope<'_>, name: &str, number: u16) -> Result<String, Status> {
    let service = write::find(scope.backend, &SERVICES, scope.target.namespace, name).await?;
    let service = service.ok_or_else(|| Status::no_object(SERVICES.group, SERVICES.plural, name))?.object;
    let ports = items(service.get("spec").and_then(|spec| spec.get("ports")));
    let mut of_number =
        ports.filter(|port| port.get("port").and_then(Value::as_u64) == Some(u64::from(number)));
    match of_number.next() {
        Some(port) => Ok(text(port, "name").to_owned()),
        None => {
            let message = format!("no service port {number} found for service {name:?}");
            Err(Status::unavailable(message))
        }
    }
}

async fn of_endpoints(scope: &RequestScope<'_>, name: &str, port: &str) -> Result<Vec<Endpoint>, Status> {
    let found = write::find(scope.backend, &ENDPOINTS, scope.target.namespace, name).await?;
    let Some(Stored { object, .. }) = found else { return Ok(Vec::new()) };
    Ok(in_subsets(&object, port))
}

fn in_subsets(object: &Map, port: &str) -> Vec<Endpoint> {
    let mut endpoints = Vec::new();
    for subset in items(object.get("subsets")) {
        let Some(number) = number_of(subset, port) else { continue };
        for address in items(subset.get("addresses")) {
            endpoints.extend(endpoint(text(address, "ip"), number, address));
        }
    }
    endpoints
}

async fn of_slices(scope: &RequestScope<'_>, name: &str, port: &str) -> Result<Vec<Endpoint>, Status> {
    let mut endpoints = Vec::new();
    for entry in write::all(scope.backend, &ENDPOINT_SLICES, scope.target.namespace).await? {
        // Others need not be decoded.
        if is_about(&entry, name) {
            endpoints.extend(in_slice(&Stored::read(&ENDPOINT_SLICES, entry)?.object, name, port));
        }
    }
    Ok(endpoints)
}

fn is_about(entry: &Entry, name: &str) -> bool {
    memchr::memmem::find(&entry.value, name.as_bytes()).is_some()
}

fn in_slice(slice: &Map, name: &str, port: &str) -> Vec<Endpoint> {
    let labels = slice.get("metadata").and_then(|metadata| metadata.get("labels"));
    let is_own = labels.is_some_and(|labels| text(labels, SERVICE_NAME) == name);
    let object = Value::Object(slice.clone());
    let Some(number) = number_of(&object, port).filter(|_| is_own) else { return Vec::new() };
    let is_ready = |endpoint: &&Value| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false));
    items(slice.get("endpoints"))
        .filter(is_ready)
        .filter_map(|found| endpoint(found.pointer("/addresses/0")?.as_str()?, number, found))
        .collect()
}

/// An endpoint, if it is a pod.
fn endpoint(address: &str, port: u16, of: &Value) -> Option<Endpoint> {
    let target = of.get("targetRef").filter(|target| text(target, "kind") == PODS.kind)?;
    let pod = (text(target, "namespace").to_owned(), text(target, "name").to_owned());
    Some(Endpoint { address: address.to_owned(), port, pod })
}

/// The number of the port of this name.
fn number_of(of: &Value, name: &str) -> Option<u16> {
    let port = items(of.get("ports")).find(|port| text(port, "name") == name)?;
    u16::try_from(port.get("port")?.as_u64()?).ok()
}

/// Whether the pod of an endpoint has its address. Whoever may write endpoints must not lead the server anywhere.
async fn is_of_pod(scope: &RequestScope<'_>, endpoint: &Endpoint) -> Result<bool, Status> {
    let (namespace, name) = &endpoint.pod;
    let Some(pod) = write::find(scope.backend, &PODS, namespace, name).await? else { return Ok(false) };
    let status = pod.object.get("status");
    let mut ips = items(status.and_then(|status| status.get("podIPs")));
    let is_first = status.is_some_and(|status| text(status, "podIP") == endpoint.address);
    Ok(is_first || ips.any(|ip| text(ip, "ip") == endpoint.address))
}

fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map {
        value.as_object().unwrap().clone()
    }

    fn pod(name: &str) -> Value {
        json!({"kind": "Pod", "namespace": "n", "name": name})
    }

    #[test]
    fn endpoints_of_the_named_port_are_found() {
        let subsets = json!({"subsets": [
            {"addresses": [{"ip": "192.0.2.1", "targetRef": pod("a")}, {"ip": "192.0.2.9"}],
             "ports": [{"name": "web", "port": 80}, {"name": "other", "port": 81}]},
            {"notReadyAddresses": [{"ip": "192.0.2.2", "targetRef": pod("b")}], "ports": [{"name": "web", "port": 80}]},
        ]});
        let found = in_subsets(&map(subsets), "web");
        let own =
            Endpoint { address: "192.0.2.1".to_owned(), port: 80, pod: ("n".to_owned(), "a".to_owned()) };
        assert_eq!(found, [own]);
        let slice = |label: &str| {
            map(json!({"metadata": {"labels": {SERVICE_NAME: label}},
            "endpoints": [{"addresses": ["192.0.2.1"], "targetRef": pod("a")},
                {"addresses": ["192.0.2.2"], "targetRef": pod("b"), "conditions": {"ready": false}}],
            "ports": [{"name": "", "port": 80}]}))
        };
        assert_eq!(in_slice(&slice("s"), "s", "").len(), 1);
        assert!(in_slice(&slice("s"), "s", "web").is_empty() && in_slice(&slice("t"), "s", "").is_empty());
    }

    #[test]
    fn a_random_start_is_one_of_the_places() {
        assert_eq!((start(0), start(1)), (0, 0));
        assert!((0..100).all(|_| start(3) < 3));
    }
}
