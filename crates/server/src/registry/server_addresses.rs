//! The addresses of all servers that share an etcd, for the endpoints of the service `default/kubernetes`. As kube-apiserver does,
//! each server keeps a key with its address, which ends by itself when it is not renewed, and writes the endpoints from the keys
//! that are there. The keys are those of kube-apiserver, so that both can serve one cluster.
//!
//! Does nothing for the embedded store, which has one server: its address is written at the start
//! ([`super::own_objects::serve_cluster`]).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use portcullis_store::{Expect, List, Store as _, Value, Write};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::backend::Backend;
use super::{own_objects, storage};
use crate::http::status::Status;

/// The group and the name of the records in the store, and the name of their keys in etcd.
pub(crate) const MASTER_LEASES: (&str, &str) = ("portcullis", "masterleases");
/// How long a key lives, and how often it is renewed. As in kube-apiserver, but renewed more often.
pub(crate) const LIFETIME: Duration = Duration::from_secs(15);
const RENEWED: Duration = Duration::from_secs(5);
/// How long a server that stops takes at most to remove its address.
const LEAVES: Duration = Duration::from_secs(2);

/// The address of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerAddress {
    pub(crate) ip: IpAddr,
    pub(crate) port: u16,
}

/// Keeps the address among those of the service until `stop` is told or dropped, and then removes it.
pub(crate) async fn keep(backend: Arc<Backend>, address: ServerAddress, stop: oneshot::Receiver<()>) {
    let renewing = async {
        let mut is_failing = false;
        loop {
            let kept = renew(&backend, address).await;
            if let Err(status) = &kept
                && !is_failing
            {
                let error = status.message();
                tracing::warn!(error, "the endpoints of default/kubernetes cannot be kept");
            }
            is_failing = kept.is_err();
            sleep(RENEWED).await;
        }
    };
    tokio::select! {
        () = renewing => {}
        // Also when the server is dropped without a word.
        _ = stop => {}
    }
    match timeout(LEAVES, leave(&backend, address)).await {
        Ok(Ok(())) => {}
        Ok(Err(status)) => {
            tracing::warn!(error = status.message(), "the address of this server stays for a while")
        }
        Err(_) => {
            tracing::warn!("the address of this server stays for a while: etcd does not answer in time")
        }
    }
}

async fn renew(backend: &Backend, address: ServerAddress) -> Result<(), Status> {
    // The form is that of kube-apiserver, though the key alone counts.
    let endpoints = json!({"kind": "Endpoints", "apiVersion": "v1", "metadata": {"generation": 1},
        "subsets": [{"addresses": [{"ip": address.ip}]}]});
    let value = Value { bytes: Bytes::from(endpoints.to_string()), revision_at: None, relies_on: None };
    write(backend, address, Some(value)).await?;
    lead_to_all(backend, address).await
}

async fn leave(backend: &Backend, address: ServerAddress) -> Result<(), Status> {
    write(backend, address, None).await?;
    lead_to_all(backend, address).await
}

async fn write(backend: &Backend, address: ServerAddress, value: Option<Value>) -> Result<(), Status> {
    let key = format!("{}{}", prefix(), address.ip).into();
    let write = Write { key, expect: Expect::Anything, value };
    backend.commit_beyond_quota(vec![write]).await.map(drop).map_err(|error| storage::failed(&error))
}

/// Makes the endpoints lead to the addresses that are there now. If there is none, they stay as they are, as after the last server
/// was killed.
async fn lead_to_all(backend: &Backend, own: ServerAddress) -> Result<(), Status> {
    let prefix = prefix();
    let list = List { prefix: prefix.as_str().into(), ..List::default() };
    let listing = backend.list(&list).await.map_err(|error| storage::failed(&error))?;
    let names = listing.entries.iter().filter_map(|entry| entry.key.strip_prefix(&*prefix));
    // As in kube-apiserver, an EndpointSlice has addresses of one family, and all servers have the same port.
    let addresses: BTreeSet<IpAddr> = names
        .filter_map(|name| name.parse().ok())
        .filter(|ip: &IpAddr| ip.is_ipv4() == own.ip.is_ipv4())
        .collect();
    if addresses.is_empty() {
        return Ok(());
    }
    own_objects::lead_to(backend, &addresses, own.port).await
}

/// Whether a key of the store is that of the address of a server.
pub(crate) fn is_address(key: &str) -> bool {
    key.starts_with(&prefix())
}

fn prefix() -> String {
    let (group, collection) = MASTER_LEASES;
    format!("/{group}/{collection}/")
}
