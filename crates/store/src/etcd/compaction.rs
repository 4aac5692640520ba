//! Compacts etcd, together with all servers that share it (ET-40).
//!
//! The key `compact_rev_key`, which kube-apiservers use too, counts the intervals by its version: who writes it first
//! compacts, to the revision that it saw one interval before.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::client::{Client, Failure, NO_RESOURCE};
use super::wire::{
    Compare, Equals, PutRequest, RangeRequest, Request, RequestOp, Response, Target, TxnRequest,
};

/// The key, outside of every prefix.
const KEY: Bytes = Bytes::from_static(b"compact_rev_key");
const WITHIN: Duration = Duration::from_secs(10);

/// Compacts once in each interval, unless another server does, until the future is dropped.
pub(super) async fn run(client: Arc<Client>, interval: Duration) {
    let (mut time, mut seen) = (0, 0);
    loop {
        sleep(interval).await;
        match turn(&client, time, seen).await {
            Ok((next, revision)) => (time, seen) = (next, revision),
            Err(failure) => {
                tracing::warn!(?failure, "etcd cannot be compacted; trying again in the next interval")
            }
        }
    }
}

/// Compacts to `seen` if nobody has written the key since `time`. Returns the key's version, and etcd's revision.
async fn turn(client: &Client, time: i64, seen: i64) -> Result<(i64, i64), Failure> {
    let compare = Compare { target: Target::Version.into(), key: KEY, equals: Some(Equals::Version(time)) };
    let put = PutRequest { key: KEY, value: seen.to_string().into(), ..PutRequest::default() };
    let get = RangeRequest::of(KEY);
    let request = TxnRequest {
        compare: vec![compare],
        success: vec![RequestOp { request: Some(Request::Put(put)) }],
        failure: vec![RequestOp { request: Some(Request::Range(get)) }],
    };
    let answer = client.transaction(request, NO_RESOURCE, WITHIN).await?;
    let revision = answer.header.map_or(0, |header| header.revision);
    if answer.succeeded {
        if seen > 0 {
            client.compact(seen, WITHIN).await?;
            tracing::debug!(revision = seen, "etcd was compacted");
        }
        return Ok((time.saturating_add(1), revision));
    }
    let version = answer.responses.iter().find_map(|op| match &op.response {
        Some(Response::Range(range)) => range.kvs.first().map(|kv| kv.version),
        _ => None,
    });
    Ok((version.unwrap_or(0), revision))
}
