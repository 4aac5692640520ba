//! The address of a node's kubelet (NR-112), and proxies to nodes (KA-85).

use kinds::Map;
use kinds::resources::core::nodes::NODES;
use serde_json::Value;

use super::location::Place;
use crate::http::status::Status;
use crate::proxy::dial::Destination;
use crate::proxy::kubelets::{KubeletSettings, Kubelets};
use crate::registry::request_scope::RequestScope;
use crate::registry::write;

/// The feature by which a kubelet says that it knows all subprotocols of WebSocket.
const WEBSOCKETS: &str = "ExtendWebSocketsToKubelet";

/// The kubelet of a node, as the Node object describes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kubelet {
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether it knows all subprotocols of WebSocket (KA-84).
    pub(super) takes_all: bool,
}

/// The kubelet of a node.
///
/// # Errors
/// There is no such node, or it has no address of a preferred type.
pub(super) async fn kubelet(
    scope: &RequestScope<'_>,
    settings: &KubeletSettings,
    name: &str,
) -> Result<Kubelet, Status> {
    let node = write::find(scope.backend, &NODES, "", name).await?;
    let node = node.ok_or_else(|| Status::no_object(NODES.group, NODES.plural, name))?;
    of(&node.object, settings)
}

fn of(node: &Map, settings: &KubeletSettings) -> Result<Kubelet, Status> {
    let status = node.get("status");
    let at = |pointer: &str| status.and_then(|status| status.pointer(pointer));
    let addresses: Vec<(&str, &str)> = at("/addresses")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|address| Some((address.get("type")?.as_str()?, address.get("address")?.as_str()?)))
        .collect();
    let preferred = settings
        .address_types
        .iter()
        .find_map(|wanted| addresses.iter().find(|(kind, address)| kind == wanted && !address.is_empty()));
    let Some((_, host)) = preferred else {
        let known: Vec<String> =
            addresses.iter().map(|(kind, address)| format!("{{{kind} {address}}}")).collect();
        let known = known.join(" ");
        return Err(Status::unknown(format!("no preferred addresses found; known addresses: [{known}]")));
    };
    let port = at("/daemonEndpoints/kubeletEndpoint/Port").and_then(Value::as_u64);
    let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
    let features = at("/declaredFeatures").and_then(Value::as_array);
    Ok(Kubelet {
        host: (*host).to_owned(),
        port: port.unwrap_or(settings.port),
        takes_all: features.is_some_and(|features| features.iter().any(|feature| feature == WEBSOCKETS)),
    })
}

/// The destination of a proxy to a node: its kubelet with the server's credentials, or another port without.
///
/// # Errors
/// 400 for a place or an address that is not allowed, before its port is looked at (NC-6).
pub(super) async fn proxied(scope: &RequestScope<'_>, kubelets: &Kubelets) -> Result<Destination, Status> {
    let id = scope.target.name;
    let invalid = || Status::bad_request(format!("invalid node request {id:?}"));
    let place = Place::of(id).ok_or_else(invalid)?;
    let Kubelet { host, port, .. } = kubelet(scope, &kubelets.settings, place.name).await?;
    let asked = match place.port {
        "" => port,
        _ => place.number().ok_or_else(invalid)?,
    };
    if asked == port {
        let tls = kubelets.tls(false).map_err(|error| Status::unavailable(error.to_string()))?;
        return Ok(Destination { host, port, tls: Some(tls) });
    }
    let tls = place.is_https.then(|| kubelets.stranger());
    Ok(Destination { host, port: asked, tls })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_address_of_the_first_preferred_type_is_taken_nr_112() {
        let of = |status: Value, types: &[&str]| {
            let address_types = types.iter().map(|&text| text.to_owned()).collect();
            let settings = KubeletSettings { address_types, ..KubeletSettings::default() };
            let node = json!({"status": status});
            super::of(node.as_object().unwrap(), &settings)
        };
        let addresses = json!([{"type": "InternalIP", "address": "192.0.2.1"},
            {"type": "InternalIP", "address": "192.0.2.2"}, {"type": "Hostname", "address": "node-1"}]);
        let found = of(json!({"addresses": addresses}), &["Hostname", "InternalIP"]).unwrap();
        assert_eq!(found, Kubelet { host: "node-1".to_owned(), port: 10250, takes_all: false });
        let status = json!({"addresses": addresses, "declaredFeatures": ["A", "ExtendWebSocketsToKubelet"],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 1250}}});
        let found = of(status, &["ExternalIP", "InternalIP"]).unwrap();
        assert_eq!(found, Kubelet { host: "192.0.2.1".to_owned(), port: 1250, takes_all: true });
        let refusal = of(json!({"addresses": addresses}), &["ExternalIP"]).unwrap_err();
        assert_eq!(
            refusal.message(),
            "no preferred addresses found; known addresses: [{InternalIP 192.0.2.1} {InternalIP 192.0.2.2} {Hostname node-1}]"
        );
    }
}
