//! Objects by which the server tells its cluster about itself, as kube-apiserver does: the service `default/kubernetes`, the
//! ranges of addresses that services have, and since when the use of legacy tokens is tracked. They are written at start.
//!
//! DIVERGES: what others change of them stays until the next start; kube-apiserver puts it right every few seconds. With etcd the
//! endpoints are put right as well (`super::server_addresses`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::core::config_maps::CONFIG_MAPS;
use kinds::resources::core::endpoints::ENDPOINTS;
use kinds::resources::core::services::{AddressRanges, SERVICES};
use kinds::resources::endpoint_slices::ENDPOINT_SLICES;
use kinds::resources::networking::SERVICE_CIDRS;
use portcullis_store::Store as _;
use serde_json::{Value, json};

use super::backend::Backend;
use super::storage;
use super::{meta, write};
use crate::http::status::Status;

/// The number of attempts after conflicting writes.
const ATTEMPTS: usize = 30;
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
/// The name of the service that leads to the server, and of the ServiceCIDR of its flag.
const SERVICE: &str = "kubernetes";

/// Creates an object, or puts its content right. Its metadata is only written when it is created.
///
/// # Errors
/// The store failed, or there were too many conflicts.
pub(crate) async fn keep(
    backend: &Backend,
    resource: &'static Resource,
    namespace: &str,
    object: &Map,
) -> Result<(), Status> {
    for _ in 0..ATTEMPTS {
        let write = match write::find(backend, resource, namespace, meta::text(object, "name")).await? {
            None => write::create(resource, namespace, object.clone(), write::SERVER)?,
            Some(stored) => {
                let mut right = stored.object.clone();
                let content = object.iter().filter(|(field, _)| *field != "metadata");
                right.extend(content.map(|(field, value)| (field.clone(), value.clone())));
                if right == stored.object {
                    return Ok(());
                }
                write::replace(resource, &stored.entry, right, write::SERVER)?
            }
        };
        if write::commit(backend, vec![write]).await? {
            return Ok(());
        }
    }
    Err(Status::internal(format_args!("too many conflicts while writing {}", resource.plural)))
}

/// An object of the server with this name and content.
pub(crate) fn named(name: &str, labels: &Value, content: Value) -> Map {
    let mut object = Map::new();
    meta::set(&mut object, "name", name);
    if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        meta::set(&mut object, "labels", labels.clone());
    }
    if let Value::Object(content) = content {
        object.extend(content);
    }
    object
}

/// Writes since when the use of legacy service account tokens is noted (AN-78), unless that is there.
///
/// # Errors
/// See [`keep`].
pub(crate) async fn track_legacy_tokens(backend: &Backend) -> Result<(), Status> {
    if write::find(backend, &CONFIG_MAPS, "kube-system", TRACKING).await?.is_some() {
        return Ok(());
    }
    let time = meta::time(meta::now());
    let since = time.split('T').next().unwrap_or_default();
    let object = named(TRACKING, &json!({}), json!({"data": {"since": since}}));
    keep(backend, &CONFIG_MAPS, "kube-system", &object).await
}

/// Writes the ServiceCIDR that names the ranges. One of an earlier start with other ranges stays: its ranges cannot be
/// changed, and services have addresses from them.
///
/// # Errors
/// See [`keep`].
pub(crate) async fn name_ranges(backend: &Backend, ranges: &AddressRanges) -> Result<(), Status> {
    let named_by_flag: Vec<String> = ranges.iter().map(|range| range.to_string()).collect();
    let spec = json!({"cidrs": named_by_flag});
    let Some(stored) = write::find(backend, &SERVICE_CIDRS, "", SERVICE).await? else {
        return keep(backend, &SERVICE_CIDRS, "", &named(SERVICE, &json!({}), json!({"spec": spec}))).await;
    };
    if stored.object.get("spec") != Some(&spec) {
        tracing::warn!(
            flag = named_by_flag.join(","),
            stored = stored.object.get("spec").map(ToString::to_string),
            "--service-cluster-ip-range differs from ServiceCIDR kubernetes: new services get addresses by the flag; \
             delete the ServiceCIDR and restart if the change is intended"
        );
    }
    Ok(())
}

/// Writes the service `default/kubernetes`, and where it leads: to this address, if the server can be reached there, and
/// this port.
///
/// # Errors
/// See [`keep`].
pub(crate) async fn serve_cluster(
    backend: &Backend,
    ranges: &AddressRanges,
    address: Option<IpAddr>,
    port: u16,
) -> Result<(), Status> {
    let own = ranges.first().first().to_string();
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    if write::find(backend, &SERVICES, "default", SERVICE).await?.is_none() {
        let services = storage::all(backend, &SERVICES).await?;
        let is_taken = services.iter().any(|service| {
            service.get("spec").and_then(|spec| spec.get("clusterIP")) == Some(&own.as_str().into())
        });
        if is_taken {
            tracing::warn!(
                address = own,
                "another service has the address of default/kubernetes, which is not made"
            );
            return Ok(());
        }
        let ports = json!([{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]);
        let spec = json!({
            "clusterIP": own,
            "clusterIPs": [own],
            "ipFamilies": [ranges.first().family()],
            "ipFamilyPolicy": "SingleStack",
            "ports": ports,
            "type": "ClusterIP",
        });
        keep(backend, &SERVICES, "default", &named(SERVICE, &labels, json!({"spec": spec}))).await?;
    }
    match address {
        // Several servers keep their addresses together.
        Some(address) if !backend.is_shared() => lead_to(backend, &BTreeSet::from([address]), port).await,
        Some(_) | None => Ok(()),
    }
}

/// Makes the service `default/kubernetes` lead to these addresses, all of one family, at this port.
///
/// # Errors
/// See [`keep`].
pub(super) async fn lead_to(
    backend: &Backend,
    addresses: &BTreeSet<IpAddr>,
    port: u16,
) -> Result<(), Status> {
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    let ips: Vec<Value> = addresses.iter().map(|address| json!({"ip": address})).collect();
    let subsets = json!([{"addresses": ips, "ports": ports}]);
    let labels = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    let endpoints = named(SERVICE, &labels, json!({"subsets": subsets}));
    let labels = json!({"kubernetes.io/service-name": SERVICE});
    let ready = |address| json!({"addresses": [address], "conditions": {"ready": true}});
    let slice = json!({
        "addressType": if addresses.iter().all(IpAddr::is_ipv4) { "IPv4" } else { "IPv6" },
        "endpoints": addresses.iter().map(ready).collect::<Vec<_>>(),
        "ports": ports,
    });
    keep(backend, &ENDPOINTS, "default", &endpoints).await?;
    keep(backend, &ENDPOINT_SLICES, "default", &named(SERVICE, &labels, slice)).await
}
