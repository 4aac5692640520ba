//! A Node as the approver sees it: its existence, and the address of its kubelet.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::object::{self, AddressView, ObjectError, View};
use crate::objects::decode::{List, or_default};

/// A Node. The kubelet itself writes its status, so the status only tells where to dial, and grants nothing (NB-118).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The name.
    pub name: String,
    /// The addresses of type `InternalIP`, as written, in order.
    pub internal_ips: Vec<String>,
    /// The kubelet's port; 0 if there is none.
    pub kubelet_port: u16,
}

impl Node {
    /// Reads a Node.
    ///
    /// # Errors
    /// The text is not a JSON object, or a relevant field has a value of another type.
    pub fn from_json(text: &str) -> Result<Self, ObjectError> {
        let view: View<IgnoredAny, Status> = object::decode(text)?;
        let internal = |address: AddressView| (address.kind == "InternalIP").then_some(address.address);
        let port = view.status.daemon_endpoints.kubelet_endpoint.port;
        Ok(Self {
            name: view.metadata.name,
            internal_ips: view.status.addresses.0.into_iter().filter_map(internal).collect(),
            kubelet_port: u16::try_from(port).unwrap_or(0),
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    addresses: List<AddressView>,
    #[serde(deserialize_with = "or_default")]
    daemon_endpoints: DaemonEndpoints,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DaemonEndpoints {
    #[serde(deserialize_with = "or_default")]
    kubelet_endpoint: Endpoint,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Endpoint {
    // Capitalized, unlike every other field.
    #[serde(rename = "Port", deserialize_with = "or_default")]
    port: i64,
}
