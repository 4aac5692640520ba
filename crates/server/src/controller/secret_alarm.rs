//! Writes an event about each node for which the alarm on secrets is raised (BC-33).

use std::sync::Arc;

use kinds::resources::core::nodes::NODES;
use tokio::sync::mpsc;

use super::events::{self, Report};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::write;

/// Writes events about these nodes until the sender is dropped. A node without a Node object gets none; an event that is there already
/// is not written again.
pub(crate) async fn report(backend: Arc<Backend>, most: usize, mut nodes: mpsc::Receiver<String>) {
    while let Some(node) = nodes.recv().await {
        if let Err(status) = about(&backend, most, &node).await {
            tracing::warn!(
                node,
                error = status.message(),
                "the event about the node's secrets was not written"
            );
        }
    }
}

async fn about(backend: &Backend, most: usize, node: &str) -> Result<(), Status> {
    let Some(found) = write::find(backend, &NODES, "", node).await? else { return Ok(()) };
    let message = format!("the node asked for more than {most} distinct secrets in a minute");
    let report =
        Report { component: "portcullis", severity: "Warning", reason: "ManySecrets", message: &message };
    events::report(backend, &NODES, &found.object, &report).await
}
